/** The doctor's checks of this machine: Node, the sandbox, the state folder, the disk, tokens, the port. */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { isFault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'
import { APPARMOR_FIX } from '@breakfall/runner/internal'
import { restrictsUserNamespaces } from '@breakfall/supervisor/platform'
import { prepareStateDir } from '../../process/state-folder.ts'
import type { Finding } from './finding.ts'

export function checkNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const isNew = major > 24 || (major === 24 && minor >= 12)
  return {
    check: 'Node',
    verdict: isNew ? 'ok' : 'bad',
    found: `Node ${process.versions.node}`,
    fix: isNew ? undefined : 'install Node 24.12 or newer, or start Breakfall with npm',
  }
}

/** Runs a command in a sandbox: bubblewrap may be installed and still be forbidden. */
export function checkSandbox(): Finding {
  const check = 'sandbox'
  if (process.platform !== 'linux')
    return {
      check,
      verdict: 'warn',
      found: 'no bubblewrap on this system',
      fix: 'run the runner on Linux, or allow commands without a sandbox: --allow-isolation process',
    }
  const probe = spawnSync(
    'bwrap',
    ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', 'true'],
    { encoding: 'utf8', timeout: 10_000 },
  )
  if (probe.error !== undefined)
    return {
      check,
      verdict: 'warn',
      found: 'bubblewrap is not installed, so commands cannot run in a sandbox',
      fix: 'install it (sudo apt-get install bubblewrap), or allow level "process"',
    }
  if (probe.status === 0) return { check, verdict: 'ok', found: 'bubblewrap works (level bwrap)' }
  return {
    check,
    verdict: 'warn',
    found: `bubblewrap does not work here: ${(probe.stderr || 'it failed without a message').trim().split('\n')[0] ?? ''}`,
    fix: `${restrictsUserNamespaces() ? APPARMOR_FIX : 'allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1)'}; or allow level "process"`,
  }
}

export function checkState(stateDir: string): Finding {
  try {
    return { check: 'state', verdict: 'ok', found: prepareStateDir(stateDir, { create: false }) }
  } catch (error) {
    return { check: 'state', verdict: 'bad', found: isFault(error) ? error.error : String(error) }
  }
}

const DISK_BYTES_LOW = 1024 ** 3
const DISK_BYTES_NONE = 8 * 1024 ** 2 // the daemon resumes turns that it parked for lack of space above this

export function checkDisk(stateDir: string): Finding {
  const folder = existsSync(stateDir) ? stateDir : existsSync(dirname(stateDir)) ? dirname(stateDir) : '/'
  const { bavail, bsize } = statfsSync(folder)
  const free = bavail * bsize
  const gib = (free / 1024 ** 3).toFixed(1)
  return free < DISK_BYTES_LOW
    ? {
        check: 'disk',
        verdict: free < DISK_BYTES_NONE ? 'bad' : 'warn',
        found: `only ${free < DISK_BYTES_NONE ? `${Math.floor(free / 1024 ** 2)} MiB` : `${gib} GiB`} free for journals and outputs`,
        fix: 'free some space; on a full disk, turns park until 8 MiB are free',
      }
    : { check: 'disk', verdict: 'ok', found: `${gib} GiB free` }
}

export function checkTokens(stateDir: string): readonly Finding[] {
  const files = [stateDir, join(stateDir, 'runner')]
    .filter(isReadable) // otherwise the check of the state folder reports it
    .flatMap((folder) =>
      readdirSync(folder)
        .filter((name) => /token/.test(name))
        .map((name) => join(folder, name)),
    )
  return files.map((file) => {
    const mode = statSync(file).mode & 0o777
    const isOpen = (mode & 0o077) !== 0
    return {
      check: 'token',
      verdict: isOpen ? 'bad' : 'ok',
      found: `${file} has mode ${mode.toString(8)}`,
      fix: isOpen ? `chmod 600 ${file}` : undefined,
    }
  })
}

function isReadable(folder: string): boolean {
  try {
    accessSync(folder, constants.R_OK | constants.X_OK)
    return true
  } catch {
    return false // missing, or not ours
  }
}

export async function checkPort(port: number | undefined): Promise<Finding> {
  if (port === undefined || port === 0)
    return { check: 'port', verdict: 'ok', found: 'the daemon takes the port of its last start, or a free one' }
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) =>
      resolve({
        check: 'port',
        verdict: 'warn',
        found: `cannot bind port ${port} (${errorCode(error) ?? 'unknown'})`,
        fix: 'a daemon may be running already; otherwise choose another [daemon] port',
      }),
    )
    server.listen(port, '127.0.0.1', () =>
      server.close(() => resolve({ check: 'port', verdict: 'ok', found: `port ${port} is free` })),
    )
  })
}
