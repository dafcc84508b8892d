# shebang
-- nothing