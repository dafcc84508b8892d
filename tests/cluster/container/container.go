// Package container starts one process as a container: a root of its own, namespaces, volumes, a user and what it may
// do. It knows nothing of Kubernetes; the node package fills in its Spec.
//
//	node ── Start(Spec, Namespaces) ──▶ haptic-pod launch ── exec ──▶ the container's main process
//
// The half that runs inside the new namespaces is in the package launch. It is linked into a small binary of its own,
// since every start of the large one would cost the initialisation of all of Kubernetes.
package container

// Spec is what `haptic-pod` needs to know to become the container's main process. It travels as JSON.
type Spec struct {
	// Root is an empty folder to build the root on; what is mounted there is seen by the container alone.
	Root string `json:"root"`
	// HostProc is where the outermost proc file system is mounted, to learn the process id that is seen from outside.
	HostProc string   `json:"hostProc"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	Mounts   []Mount  `json:"mounts"`
	Security Security `json:"security"`
	// Enter is set for a process that joins a running container instead of starting one: Root and Mounts are unused.
	Enter bool `json:"enter"`
}

// Mount binds a file or folder into the container.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly"`
}

// Security is who the process is and what it may do.
type Security struct {
	User   int   `json:"user"`
	Group  int   `json:"group"`
	Groups []int `json:"groups"`
	// Capabilities is the bounding set, without the prefix CAP_. Root has them all, other users none.
	Capabilities    []string `json:"capabilities"`
	Privileged      bool     `json:"privileged"`
	ReadOnlyRoot    bool     `json:"readOnlyRoot"`
	NoNewPrivileges bool     `json:"noNewPrivileges"`
	// Seccomp asks for the default filter of a container runtime.
	Seccomp bool `json:"seccomp"`
}

// The file descriptors that `haptic-pod` finds open beside the standard ones.
const (
	SpecDescriptor   = 3
	ReportDescriptor = 4
	// MountDescriptor is the mount namespace to enter, only with Spec.Enter.
	MountDescriptor = 5
)

// Report is the one line that `haptic-pod` writes before it becomes the container's process, or instead of that.
type Report struct {
	HostPid int    `json:"hostPid,omitempty"`
	Error   string `json:"error,omitempty"`
}

// DefaultCapabilities are what container runtimes leave to a container that asks for nothing.
func DefaultCapabilities() []string {
	return []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
		"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
}
