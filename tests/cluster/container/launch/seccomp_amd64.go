package launch

import "golang.org/x/sys/unix"

const ownArchitecture = unix.AUDIT_ARCH_X86_64

var deniedOnThisArchitecture = []uint32{
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT,
	unix.SYS_QUERY_MODULE, unix.SYS_SYSFS, unix.SYS_USELIB, unix.SYS_USTAT,
}
