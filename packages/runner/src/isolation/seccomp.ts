/**
 * The system calls that no command in a sandbox may make, as a BPF program for `bwrap --seccomp`. Pure.
 *
 * A deny-list: namespaces, mounts and dropped capabilities are the sandbox; this closes what they leave open. AF_VSOCK has no
 * namespace, so it reaches the hypervisor even without a network. Keys belong to sessions and users, so a command would find
 * those of the session that started the runner. In a new user namespace a command would have every capability, so it
 * can make none. ptrace stays, because agents debug, and each exec has its own pid namespace; only the init of that namespace
 * is out of reach: stopped or overwritten, it would no longer report how the command ended. The rest is kernel surface that
 * agents do not need.
 */

/** Null on machines for which we have no table of system calls. */
export function seccompProgram(arch: string = process.arch): Buffer | null {
  const machine = MACHINES[arch]
  if (machine === undefined) return null
  const { audit, calls, socket, unshare, clone, ptrace, processVm, x32 } = machine
  const program: Instruction[] = [
    load(ARCH_OFFSET),
    jumpIf(JEQ, audit, 1, 0),
    answer(errno(ENOSYS)), // of another architecture: its numbers mean other calls
    load(NUMBER_OFFSET),
    ...(x32 === undefined ? [] : [jumpIf(JGE, x32, 0, 1), answer(errno(ENOSYS))]),
    ...Object.entries(calls).flatMap(([name, number]) => [
      jumpIf(JEQ, number, 0, 1),
      answer(errno(FALLING_BACK.test(name) ? ENOSYS : EPERM)),
    ]),
    ...[unshare, clone].flatMap((number) => [
      jumpIf(JEQ, number, 0, 4),
      load(FIRST_ARGUMENT_OFFSET),
      jumpIf(JSET, CLONE_NEWUSER, 0, 1),
      answer(errno(EPERM)),
      answer(ALLOW),
    ]),
    jumpIf(JEQ, ptrace, 0, 7),
    load(FIRST_ARGUMENT_OFFSET),
    jumpIf(JEQ, PTRACE_ATTACH, 1, 0),
    jumpIf(JEQ, PTRACE_SEIZE, 0, 3),
    load(SECOND_ARGUMENT_OFFSET),
    jumpIf(JEQ, INIT, 0, 1),
    answer(errno(EPERM)),
    answer(ALLOW),
    ...processVm.flatMap((number) => [
      jumpIf(JEQ, number, 0, 4),
      load(FIRST_ARGUMENT_OFFSET),
      jumpIf(JEQ, INIT, 0, 1),
      answer(errno(EPERM)),
      answer(ALLOW),
    ]),
    jumpIf(JEQ, socket, 0, 2 + SOCKET_FAMILIES.length),
    load(FIRST_ARGUMENT_OFFSET),
    ...SOCKET_FAMILIES.map((family, i) => jumpIf(JEQ, family, SOCKET_FAMILIES.length - i, 0)),
    answer(errno(EAFNOSUPPORT)),
    answer(ALLOW),
  ]
  const bytes = Buffer.alloc(program.length * 8)
  for (const [i, { code, ifTrue, ifFalse, value }] of program.entries()) {
    bytes.writeUInt16LE(code, i * 8)
    bytes.writeUInt8(ifTrue, i * 8 + 2)
    bytes.writeUInt8(ifFalse, i * 8 + 3)
    bytes.writeUInt32LE(value >>> 0, i * 8 + 4)
  }
  return bytes
}

/** The number of keyctl on this machine, for the process that leaves the inherited keyring. */
export const keyctlNumber = (arch: string = process.arch): number | undefined => MACHINES[arch]?.calls['keyctl']

// ---- details ----

type Instruction = {
  readonly code: number
  readonly ifTrue: number
  readonly ifFalse: number
  readonly value: number
}

const LD = 0x20 // a 32-bit word of struct seccomp_data
const JEQ = 0x15
const JGE = 0x35
const JSET = 0x45
const RET = 0x06

const load = (offset: number): Instruction => ({ code: LD, ifTrue: 0, ifFalse: 0, value: offset })
const answer = (value: number): Instruction => ({ code: RET, ifTrue: 0, ifFalse: 0, value })
const jumpIf = (code: number, value: number, ifTrue: number, ifFalse: number): Instruction => ({
  code,
  ifTrue,
  ifFalse,
  value,
})

const NUMBER_OFFSET = 0
const ARCH_OFFSET = 4
const FIRST_ARGUMENT_OFFSET = 16 // both machines are little-endian, so this is the lower half
const SECOND_ARGUMENT_OFFSET = 24

const ALLOW = 0x7fff_0000
const errno = (number: number): number => 0x0005_0000 | number
const EPERM = 1
const ENOSYS = 38
const EAFNOSUPPORT = 97

const SOCKET_FAMILIES = [1, 2, 10, 16] // unix, inet, inet6, netlink
const CLONE_NEWUSER = 0x1000_0000
const PTRACE_ATTACH = 16
const PTRACE_SEIZE = 0x4206
const INIT = 1 // of the sandbox

/** Programs take ENOSYS as "not on this kernel" and fall back. clone3 keeps its flags in memory, which a filter cannot read. */
const FALLING_BACK = /^(?:io_uring|clone3$)/

type Machine = {
  readonly audit: number
  readonly socket: number
  readonly unshare: number
  readonly clone: number
  readonly ptrace: number
  /** Calls that read or write another process's memory. */
  readonly processVm: readonly number[]
  /** Numbers from here on are the x32 variants of the same calls. */
  readonly x32?: number
  readonly calls: Readonly<Record<string, number>>
}

/** The same everywhere. */
const NEW_CALLS = { io_uring_setup: 425, io_uring_enter: 426, io_uring_register: 427, clone3: 435, pidfd_getfd: 438 }

const MACHINES: Readonly<Record<string, Machine>> = {
  x64: {
    audit: 0xc000_003e,
    socket: 41,
    unshare: 272,
    clone: 56,
    ptrace: 101,
    processVm: [310, 311],
    x32: 0x4000_0000,
    calls: {
      add_key: 248,
      request_key: 249,
      keyctl: 250,
      bpf: 321,
      perf_event_open: 298,
      userfaultfd: 323,
      ...NEW_CALLS,
      kexec_load: 246,
      kexec_file_load: 320,
      init_module: 175,
      finit_module: 313,
      delete_module: 176,
      open_by_handle_at: 304,
      reboot: 169,
      swapon: 167,
      swapoff: 168,
      acct: 163,
      setns: 308,
    },
  },
  arm64: {
    audit: 0xc000_00b7,
    socket: 198,
    unshare: 97,
    clone: 220,
    ptrace: 117,
    processVm: [270, 271],
    calls: {
      add_key: 217,
      request_key: 218,
      keyctl: 219,
      bpf: 280,
      perf_event_open: 241,
      userfaultfd: 282,
      ...NEW_CALLS,
      kexec_load: 104,
      kexec_file_load: 294,
      init_module: 105,
      finit_module: 273,
      delete_module: 106,
      open_by_handle_at: 265,
      reboot: 142,
      swapon: 224,
      swapoff: 225,
      acct: 89,
      setns: 268,
    },
  },
}
