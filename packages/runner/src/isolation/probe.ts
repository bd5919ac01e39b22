/** Detects which isolation really works on this machine by running a command in it, not by looking for a file. */
import { execFile } from 'node:child_process'
import type { IsolationLevel } from '@breakfall/wire'
import { bwrapCommand, bwrapOptions, type BoxUser, SECCOMP_FD, seccompOptions } from './bwrap-args.ts'
import { findProgram, USUAL_FOLDERS } from './find-program.ts'
import type { HostLayout } from './host-layout.ts'

export type Isolation = {
  /** A box may ask for level "process". */
  readonly allowsProcess: boolean
  /** Null: no box can be made on this machine. */
  readonly level: IsolationLevel | null
  readonly bwrap: string | null
  readonly disableUserns: boolean
  /** The path of setpriv if root can use it for workspaces of other owners, else null. */
  readonly setpriv: string | null
  /** The file with the seccomp program that each sandbox gets; null if it cannot be used here. */
  readonly seccomp: string | null
  /** Why bwrap is not used; null if it is. */
  readonly because: string | null
}

export async function probeIsolation(options: {
  readonly layout: HostLayout
  readonly path: string
  readonly allowProcess: boolean
  readonly level?: IsolationLevel | undefined
  /** The file with the seccomp program; null if there is none for this machine. */
  readonly seccomp: string | null
}): Promise<Isolation> {
  const fallback = options.allowProcess && options.level !== 'bwrap' ? 'process' : null
  const setpriv = process.getuid?.() === 0 ? findProgram('setpriv', options.path, USUAL_FOLDERS) : null
  const bwrap = options.level === 'process' ? null : findProgram('bwrap', options.path)
  const allowsProcess = options.allowProcess && options.level !== 'bwrap'
  const none = { allowsProcess, bwrap: null, disableUserns: false, setpriv, seccomp: null }
  if (bwrap === null)
    return {
      ...none,
      level: fallback,
      because: options.level === 'process' ? 'level "process" was requested' : 'bwrap is not on the PATH',
    }
  const uid = process.getuid?.() ?? 0
  const gid = process.getgid?.() ?? 0
  const user = (disableUserns: boolean): BoxUser => ({ kind: 'userns', uid, gid, disableUserns })
  const strict = await tryBwrap(bwrap, user(true), options.layout)
  const plain = strict === null ? null : await tryBwrap(bwrap, user(false), options.layout)
  if (plain !== null) return { ...none, level: fallback, because: plain }
  const filtered =
    options.seccomp === null ? 'no program' : await tryBwrap(bwrap, user(false), options.layout, options.seccomp)
  const other: BoxUser | null = setpriv === null ? null : { kind: 'setpriv', uid: 65_534, gid: 65_534, setpriv }
  const canServeOthers = other !== null && (await tryBwrap(bwrap, other, options.layout)) === null
  return {
    allowsProcess,
    level: 'bwrap',
    bwrap,
    disableUserns: strict === null,
    seccomp: filtered === null ? options.seccomp : null,
    setpriv: canServeOthers ? setpriv : null,
    because: null,
  }
}

// ---- details ----

const PROBE_MS = 10_000

/** Null if it worked, else the error message. */
function tryBwrap(
  bwrap: string,
  user: BoxUser,
  layout: HostLayout,
  seccomp: string | null = null,
): Promise<string | null> {
  const mounts = layout.folders.map((path) => ({ at: path, host: path, mode: 'ro' as const }))
  const view = { mounts, links: layout.links, masks: [], isHost: false }
  const environment = { PATH: '/usr/bin:/bin' }
  const entry = user.kind === 'setpriv' ? { workspace: '/', numbers: [] } : undefined
  const plan = { view, user, network: 'none' as const, cwd: '/', environment, entry }
  const bwrapArgs = [
    bwrap,
    ...seccompOptions(seccomp),
    ...bwrapOptions(plan),
    '--',
    ...bwrapCommand(plan, ['/bin/sh', '-c', 'echo works']),
  ]
  const args = ['-c', `exec "$@" ${SECCOMP_FD}<"$0"`, seccomp ?? '/dev/null', ...bwrapArgs]
  return new Promise((resolve) => {
    execFile('/bin/sh', args, { timeout: PROBE_MS, env: {} }, (error, stdout, stderr) => {
      if (error === null && stdout === 'works\n') resolve(null)
      else resolve((stderr.trim() || error?.message || 'bwrap ran, but printed nothing').slice(0, 500))
    })
  })
}
