package launch

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"haptic.rs/cluster/container"
)

// Linux' capabilities in the order of their numbers.
var capabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// restrict gives up, on this thread alone, what the container may not have; the order matters.
func restrict(s container.Security) error {
	kept := map[string]bool{}
	for _, name := range s.Capabilities {
		kept[strings.TrimPrefix(strings.ToUpper(name), "CAP_")] = true
	}
	all := s.Privileged || kept["ALL"]
	if !all {
		if err := dropBounding(kept); err != nil {
			return err
		}
	}
	if s.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("forbid new privileges: %w", err)
		}
	}
	// Needs privileges or their renunciation; what it denies is not used below.
	if s.Seccomp && !all && !kept["SYS_ADMIN"] {
		if err := filterSystemCalls(); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
	}
	if err := setUser(s); err != nil {
		return err
	}
	if s.User == 0 && !all {
		return keepOnly(kept)
	}
	return nil
}

func dropBounding(kept map[string]bool) error {
	for number, name := range capabilities {
		if kept[name] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop the capability %s: %w", name, err)
		}
	}
	// Newer ones that this program has no name for.
	for number := len(capabilities); number < 64; number++ {
		if unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(number), 0, 0, 0) != nil {
			break
		}
	}
	return nil
}

func setUser(s container.Security) error {
	// Raw calls: the wrappers change all threads, which is of no use right before the program is executed.
	groups := make([]uint32, 0, len(s.Groups)+1)
	for _, group := range s.Groups {
		groups = append(groups, uint32(group))
	}
	if err := setGroups(groups); err != nil {
		return fmt.Errorf("set the supplemental groups: %w", err)
	}
	group, user := uintptr(s.Group), uintptr(s.User)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, group, group, group); errno != 0 {
		return fmt.Errorf("set the group %d: %w", s.Group, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, user, user, user); errno != 0 {
		return fmt.Errorf("set the user %d: %w", s.User, errno)
	}
	return nil
}

func keepOnly(kept map[string]bool) error {
	var data [2]unix.CapUserData
	for number, name := range capabilities {
		if kept[name] {
			data[number/32].Effective |= 1 << (number % 32)
			data[number/32].Permitted |= 1 << (number % 32)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("set the capabilities: %w", err)
	}
	return nil
}
