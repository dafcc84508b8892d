package node

import (
	"fmt"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"

	"haptic.rs/cluster/image"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is the container's variables: the image's, those of Services, and the pod's own.
func (u *unit) environment(img image.Image, user int) (map[string]string, error) {
	pod := u.worker.snapshot()
	services, err := u.worker.agent.serviceVariables(pod)
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for _, source := range u.spec.EnvFrom {
		if err := u.worker.agent.takeAll(pod.Namespace, source, own); err != nil {
			return nil, err
		}
	}
	mapping := expansion.MappingFuncFor(own, services)
	for _, variable := range u.spec.Env {
		value := ""
		switch {
		case variable.Value != "":
			value = expansion.Expand(variable.Value, mapping)
		case variable.ValueFrom != nil:
			found, present, err := u.valueFrom(pod, variable.ValueFrom)
			if err != nil {
				return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
			}
			if !present {
				continue
			}
			value = found
		}
		own[variable.Name] = value
	}
	all := map[string]string{"PATH": defaultPath, "HOSTNAME": hostname(pod), "HOME": "/"}
	if user == 0 {
		all["HOME"] = "/root"
	}
	for _, layer := range []map[string]string{img.Env, services, own} {
		for name, value := range layer {
			all[name] = value
		}
	}
	return all, nil
}

func (u *unit) valueFrom(pod *v1.Pod, source *v1.EnvVarSource) (value string, present bool, err error) {
	switch {
	case source.FieldRef != nil:
		value, err = u.worker.field(pod, source.FieldRef.FieldPath)
		return value, true, err
	case source.ResourceFieldRef != nil:
		name := source.ResourceFieldRef.ContainerName
		if name == "" {
			name = u.spec.Name
		}
		value, err = resource.ExtractResourceValueByContainerName(source.ResourceFieldRef, pod, name)
		return value, true, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		object, err := u.worker.agent.configMaps.ConfigMaps(pod.Namespace).Get(ref.Name)
		if err != nil {
			return "", false, optionalMissing(err, ref.Optional)
		}
		value, present = object.Data[ref.Key]
		return value, present, missingKey(present, ref.Optional, "ConfigMap", ref.Name, ref.Key)
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		object, err := u.worker.agent.secrets.Secrets(pod.Namespace).Get(ref.Name)
		if err != nil {
			return "", false, optionalMissing(err, ref.Optional)
		}
		content, present := object.Data[ref.Key]
		return string(content), present, missingKey(present, ref.Optional, "Secret", ref.Name, ref.Key)
	default:
		return "", false, fmt.Errorf("the test cluster does not know this source of a value")
	}
}

// field is a field of the pod, among them those that its node decides.
func (w *worker) field(pod *v1.Pod, path string) (string, error) {
	switch path {
	case "status.podIP", "status.podIPs":
		return w.podAddress(), nil
	case "status.hostIP", "status.hostIPs":
		return w.hostAddress, nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	default:
		return fieldpath.ExtractFieldPathAsString(pod, path)
	}
}

// serviceVariables are those of the Services of the pod's namespace, and always those of the API server's.
func (a *Agent) serviceVariables(pod *v1.Pod) (map[string]string, error) {
	services, err := a.services.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var seen []*v1.Service
	for _, service := range services {
		apiServer := service.Namespace == "default" && service.Name == "kubernetes"
		links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
		if apiServer && pod.Namespace != "default" || service.Namespace == pod.Namespace && (links || apiServer) {
			seen = append(seen, service)
		}
	}
	// A Service of the pod's own namespace wins over the other of the same name.
	sort.SliceStable(seen, func(i, j int) bool { return seen[i].Namespace != pod.Namespace && seen[j].Namespace == pod.Namespace })
	variables := map[string]string{}
	for _, variable := range envvars.FromServices(seen) {
		variables[variable.Name] = variable.Value
	}
	return variables, nil
}

func (a *Agent) takeAll(namespace string, source v1.EnvFromSource, into map[string]string) error {
	switch {
	case source.ConfigMapRef != nil:
		object, err := a.configMaps.ConfigMaps(namespace).Get(source.ConfigMapRef.Name)
		if err != nil {
			return optionalMissing(err, source.ConfigMapRef.Optional)
		}
		for key, value := range object.Data {
			into[source.Prefix+key] = value
		}
	case source.SecretRef != nil:
		object, err := a.secrets.Secrets(namespace).Get(source.SecretRef.Name)
		if err != nil {
			return optionalMissing(err, source.SecretRef.Optional)
		}
		for key, value := range object.Data {
			into[source.Prefix+key] = string(value)
		}
	}
	return nil
}

func optionalMissing(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

func missingKey(present bool, optional *bool, kind, name, key string) error {
	if present || optional != nil && *optional {
		return nil
	}
	return fmt.Errorf("couldn't find key %s in %s %s", key, kind, name)
}

// expand replaces $(NAME) in the words.
func expand(words []string, variables map[string]string) []string {
	mapping := expansion.MappingFuncFor(variables)
	expanded := make([]string, 0, len(words))
	for _, word := range words {
		expanded = append(expanded, expansion.Expand(word, mapping))
	}
	return expanded
}

func asPairs(variables map[string]string) []string {
	pairs := make([]string, 0, len(variables))
	for name, value := range variables {
		pairs = append(pairs, name+"="+strings.ReplaceAll(value, "\x00", ""))
	}
	sort.Strings(pairs)
	return pairs
}
