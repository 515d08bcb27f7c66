package kubernetes_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// object holds the fields that the manifests use. Decoding is strict: another field, or a
// misspelt one, fails the test, since a cluster would refuse or, worse, ignore it.
type object struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   metadata          `yaml:"metadata"`
	Spec       spec              `yaml:"spec"`
	Data       map[string]string `yaml:"data"`
	StringData map[string]string `yaml:"stringData"`
}

type metadata struct {
	Name        string            `yaml:"name"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// spec is of a Deployment, a Job or a PodDisruptionBudget.
type spec struct {
	Replicas int `yaml:"replicas"`
	Strategy struct {
		Type          string `yaml:"type"`
		RollingUpdate struct {
			MaxUnavailable int `yaml:"maxUnavailable"`
			MaxSurge       int `yaml:"maxSurge"`
		} `yaml:"rollingUpdate"`
	} `yaml:"strategy"`
	Selector selector `yaml:"selector"`
	Template struct {
		Metadata metadata `yaml:"metadata"`
		Spec     pod      `yaml:"spec"`
	} `yaml:"template"`
	MaxUnavailable          int `yaml:"maxUnavailable"`
	Parallelism             int `yaml:"parallelism"`
	Completions             int `yaml:"completions"`
	BackoffLimit            int `yaml:"backoffLimit"`
	ActiveDeadlineSeconds   int `yaml:"activeDeadlineSeconds"`
	TTLSecondsAfterFinished int `yaml:"ttlSecondsAfterFinished"`
}

type pod struct {
	EnableServiceLinks            *bool           `yaml:"enableServiceLinks"`
	AutomountServiceAccountToken  *bool           `yaml:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int             `yaml:"terminationGracePeriodSeconds"`
	RestartPolicy                 string          `yaml:"restartPolicy"`
	SecurityContext               securityContext `yaml:"securityContext"`
	TopologySpreadConstraints     []struct {
		MaxSkew           int      `yaml:"maxSkew"`
		TopologyKey       string   `yaml:"topologyKey"`
		WhenUnsatisfiable string   `yaml:"whenUnsatisfiable"`
		LabelSelector     selector `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []container `yaml:"containers"`
	Volumes    []volume    `yaml:"volumes"`
}

type securityContext struct {
	RunAsNonRoot             bool              `yaml:"runAsNonRoot"`
	RunAsUser                int               `yaml:"runAsUser"`
	RunAsGroup               int               `yaml:"runAsGroup"`
	FSGroup                  int               `yaml:"fsGroup"`
	SeccompProfile           map[string]string `yaml:"seccompProfile"`
	AllowPrivilegeEscalation *bool             `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool              `yaml:"readOnlyRootFilesystem"`
	Capabilities             struct {
		Drop []string `yaml:"drop"`
	} `yaml:"capabilities"`
}

type container struct {
	Name  string   `yaml:"name"`
	Image string   `yaml:"image"`
	Args  []string `yaml:"args"`
	Env   []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	Ports []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Resources      struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	SecurityContext securityContext `yaml:"securityContext"`
	VolumeMounts    []mount         `yaml:"volumeMounts"`
}

type mount struct {
	Name      string `yaml:"name"`
	MountPath string `yaml:"mountPath"`
	ReadOnly  bool   `yaml:"readOnly"`
}

type probe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	PeriodSeconds    int `yaml:"periodSeconds"`
	TimeoutSeconds   int `yaml:"timeoutSeconds"`
	FailureThreshold int `yaml:"failureThreshold"`
}

type volume struct {
	Name      string `yaml:"name"`
	ConfigMap struct {
		Name string `yaml:"name"`
	} `yaml:"configMap"`
	Secret struct {
		SecretName  string `yaml:"secretName"`
		DefaultMode int    `yaml:"defaultMode"`
	} `yaml:"secret"`
}

// manifests returns every object of the folder by kind and name.
func manifests(t *testing.T) map[string]object {
	t.Helper()
	out := map[string]object{}
	for _, file := range []string{"compensator.yaml", "config.yaml", "secrets.example.yaml", "migrate.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		for {
			var o object
			err := decoder.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			name := o.Kind + "/" + o.Metadata.Name
			if _, ok := out[name]; ok {
				t.Fatalf("%s: %s is there twice", file, name)
			}
			out[name] = o
		}
	}
	return out
}

func get(t *testing.T, all map[string]object, name string) object {
	t.Helper()
	o, ok := all[name]
	if !ok {
		t.Fatalf("no %s in the manifests", name)
	}
	return o
}

func TestNamesAndLabelsFit(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	deployment := get(t, all, "Deployment/transmsg-compensator").Spec
	budget := get(t, all, "PodDisruptionBudget/transmsg-compensator").Spec
	const label = "app.kubernetes.io/name"
	labels := deployment.Template.Metadata.Labels
	for place, s := range map[string]selector{
		"deployment": deployment.Selector, "budget": budget.Selector,
		"spread": deployment.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		if len(s.MatchLabels) != 1 || s.MatchLabels[label] != labels[label] || labels[label] == "" {
			t.Errorf("%s selects %v, the pods have %v", place, s.MatchLabels, labels)
		}
	}
	if deployment.Replicas != 3 || budget.MaxUnavailable != 1 {
		t.Errorf("replicas %d, budget %d; want 3 and 1", deployment.Replicas, budget.MaxUnavailable)
	}
	update := deployment.Strategy
	if update.Type != "RollingUpdate" || update.RollingUpdate.MaxUnavailable >= deployment.Replicas {
		t.Errorf("strategy %+v leaves no replica during an update", update)
	}
}

// What a pod mounts must exist, and what its settings name must lie in what it mounts.
func TestPodsAreSafeAndWhole(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	for _, name := range []string{"Deployment/transmsg-compensator", "Job/transmsg-migrate"} {
		p := get(t, all, name).Spec.Template.Spec
		if len(p.Containers) != 1 {
			t.Fatalf("%s has %d containers, want 1", name, len(p.Containers))
		}
		c := p.Containers[0]
		safe := c.SecurityContext
		if open(p.EnableServiceLinks) || open(p.AutomountServiceAccountToken) || open(safe.AllowPrivilegeEscalation) {
			t.Errorf("%s: service links, account token and escalation must be off", name)
		}
		if !p.SecurityContext.RunAsNonRoot || p.SecurityContext.RunAsUser != imageUser(t) ||
			!safe.ReadOnlyRootFilesystem || !slices.Equal(safe.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: security context %+v, %+v", name, p.SecurityContext, safe)
		}
		asked := c.Resources.Requests
		if asked["memory"] == "" || asked["cpu"] == "" || c.Resources.Limits["memory"] == "" {
			t.Errorf("%s: resources %+v", name, c.Resources)
		}
		for _, v := range p.Volumes {
			if v.Secret.SecretName != "" {
				get(t, all, "Secret/"+v.Secret.SecretName)
				if v.Secret.DefaultMode&0o007 != 0 {
					t.Errorf("%s: everybody may read volume %s: %o", name, v.Name, v.Secret.DefaultMode)
				}
			} else {
				get(t, all, "ConfigMap/"+v.ConfigMap.Name)
			}
		}
	}
}

// open reports a switch that is not set to false.
func open(v *bool) bool { return v == nil || *v }
