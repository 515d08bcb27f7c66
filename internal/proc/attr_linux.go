package proc

import "syscall"

// sysProcAttr gives the child a process group of its own, so that Ctrl-C in a
// terminal reaches the test alone, and ties its life to ours.
func sysProcAttr(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: cred}
}
