goto done
do ::done:: end
