package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/secret"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

type payload = map[string]volumeutil.FileProjection

// token is a service-account token in use, and when it is to be replaced.
type token struct {
	value   string
	renewal time.Time
}

// Like the kubelet's: when a fifth of its life is left, or after a day.
const longestUse = 24 * time.Hour

func (s *Set) collect(ctx context.Context, volume v1.Volume) (payload, error) {
	switch {
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		return s.fromConfigMap(source.Name, source.Items, source.DefaultMode, isTrue(source.Optional))
	case volume.Secret != nil:
		source := volume.Secret
		return s.fromSecret(source.SecretName, source.Items, source.DefaultMode, isTrue(source.Optional))
	case volume.DownwardAPI != nil:
		return s.fromPod(volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	default:
		return s.project(ctx, volume)
	}
}

func (s *Set) project(ctx context.Context, volume v1.Volume) (payload, error) {
	all := payload{}
	mode := volume.Projected.DefaultMode
	for i, source := range volume.Projected.Sources {
		var part payload
		var err error
		switch {
		case source.ConfigMap != nil:
			part, err = s.fromConfigMap(source.ConfigMap.Name, source.ConfigMap.Items, mode, isTrue(source.ConfigMap.Optional))
		case source.Secret != nil:
			part, err = s.fromSecret(source.Secret.Name, source.Secret.Items, mode, isTrue(source.Secret.Optional))
		case source.DownwardAPI != nil:
			part, err = s.fromPod(source.DownwardAPI.Items, mode)
		case source.ServiceAccountToken != nil:
			part, err = s.fromToken(ctx, fmt.Sprintf("%s/%d", volume.Name, i), source.ServiceAccountToken, mode)
		default:
			err = errors.New("the test cluster does not project this kind of source")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(all, part)
	}
	return all, nil
}

func (s *Set) fromConfigMap(name string, items []v1.KeyToPath, mode *int32, optional bool) (payload, error) {
	object, err := s.sources.ConfigMaps.ConfigMaps(s.pod.Load().Namespace).Get(name)
	if apierrors.IsNotFound(err) && optional {
		object, err = &v1.ConfigMap{}, nil
	}
	if err != nil {
		return nil, err
	}
	return configmap.MakePayload(items, object, mode, nil, optional)
}

func (s *Set) fromSecret(name string, items []v1.KeyToPath, mode *int32, optional bool) (payload, error) {
	object, err := s.sources.Secrets.Secrets(s.pod.Load().Namespace).Get(name)
	if apierrors.IsNotFound(err) && optional {
		object, err = &v1.Secret{}, nil
	}
	if err != nil {
		return nil, err
	}
	return secret.MakePayload(items, object, mode, nil, optional)
}

func (s *Set) fromPod(items []v1.DownwardAPIVolumeFile, mode *int32) (payload, error) {
	files := payload{}
	for _, item := range items {
		file := volumeutil.FileProjection{Mode: *mode}
		if item.Mode != nil {
			file.Mode = *item.Mode
		}
		var value string
		var err error
		if item.FieldRef != nil {
			value, err = fieldpath.ExtractFieldPathAsString(s.pod.Load(), item.FieldRef.FieldPath)
		} else if item.ResourceFieldRef != nil {
			value, err = resource.ExtractResourceValueByContainerName(item.ResourceFieldRef, s.pod.Load(), item.ResourceFieldRef.ContainerName)
		}
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", item.Path, err)
		}
		file.Data = []byte(value)
		files[filepath.Clean(item.Path)] = file
	}
	return files, nil
}

func (s *Set) fromToken(ctx context.Context, key string, source *v1.ServiceAccountTokenProjection, mode *int32) (payload, error) {
	current, ok := s.tokens[key]
	if !ok || time.Now().After(current.renewal) {
		fresh, err := s.requestToken(ctx, source)
		if err != nil {
			return nil, fmt.Errorf("request a token: %w", err)
		}
		current = fresh
		s.tokens[key] = fresh
	}
	file := volumeutil.FileProjection{Data: []byte(current.value), Mode: *mode, FsUser: volumeutil.FsUserFrom(s.pod.Load())}
	if file.FsUser != nil || s.group() != nil {
		file.Mode = 0o600
	}
	return payload{source.Path: file}, nil
}

func (s *Set) requestToken(ctx context.Context, source *v1.ServiceAccountTokenProjection) (token, error) {
	pod := s.pod.Load()
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	asked := time.Now()
	answer, err := s.sources.Client.CoreV1().ServiceAccounts(pod.Namespace).
		CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return token{}, err
	}
	use := time.Until(answer.Status.ExpirationTimestamp.Time) * 4 / 5
	return token{value: answer.Status.Token, renewal: asked.Add(min(use, longestUse))}, nil
}

func isTrue(value *bool) bool { return value != nil && *value }
