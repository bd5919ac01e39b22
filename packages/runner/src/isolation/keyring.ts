/**
 * How a keeper leaves the session keyring that the runner inherited, so no command can find the keys of the session that started the
 * runner. Node cannot make that system call; `keyctl` and perl can. In a sandbox the seccomp filter denies the calls anyway:
 * this is the second lock there, and the only one at level process.
 */
import { execFile } from 'node:child_process'
import { findProgram, USUAL_FOLDERS } from './find-program.ts'
import { keyctlNumber } from './seccomp.ts'

/** The words before a command that give it an empty keyring; none if this machine offers no way. */
export async function findKeyringPrefix(path: string): Promise<readonly string[]> {
  for (const prefix of candidates(path)) if (await works(prefix)) return prefix
  return []
}

// ---- details ----

const PROBE_MS = 5_000

function candidates(path: string): readonly (readonly string[])[] {
  const number = keyctlNumber()
  const perl = findProgram('perl', path, USUAL_FOLDERS)
  const keyctl = findProgram('keyctl', path, USUAL_FOLDERS)
  return [
    // KEYCTL_JOIN_SESSION_KEYRING without a name: a new one. A user whose quota of keys is used up stays in the old one.
    ...(perl === null || number === undefined
      ? []
      : [[perl, '-e', `syscall(${number}, 1, 0); exec { $ARGV[0] } @ARGV; exit 127`, '--']]),
    ...(keyctl === null ? [] : [[keyctl, 'session', '-']]),
  ]
}

function works([program = '', ...args]: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(program, [...args, '/bin/sh', '-c', 'echo works'], { timeout: PROBE_MS, env: {} }, (error, stdout) =>
      resolve(error === null && stdout === 'works\n'),
    )
  })
}
