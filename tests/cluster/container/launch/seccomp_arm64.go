package launch

import "golang.org/x/sys/unix"

const ownArchitecture = unix.AUDIT_ARCH_AARCH64

var deniedOnThisArchitecture []uint32
