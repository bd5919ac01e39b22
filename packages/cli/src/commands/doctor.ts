/** `breakfall doctor`: looks at this machine the way a run would, and says for each trouble how to mend it. */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, statfsSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { Fault, type FaultReport, isFault } from '@breakfall/faults'
import type { LoadedConfig } from '../config/load.ts'
import type { Finding } from '../doctor/finding.ts'
import { checkDaemon, checkModel, checkRunner } from '../doctor/servers.ts'
import type { Output } from '../render/output.ts'
import { prepareStateDir } from '../process/start-errors.ts'

type Env = Readonly<Record<string, string | undefined>>

export async function doctor(loaded: LoadedConfig, stateDir: string, env: Env, out: Output): Promise<number> {
  const daemon = await checkDaemon(stateDir, env)
  const findings = [
    checkNode(),
    checkSandbox(),
    checkState(stateDir),
    checkDisk(stateDir),
    ...checkTokens(stateDir),
    await checkPort(loaded.config.daemon?.port),
    daemon.finding,
    ...(await checkRunner(loaded.config)),
    await checkModel(loaded, env, daemon.url),
    ...checkWarnings(loaded),
  ]
  const bad = findings.filter(({ verdict }) => verdict === 'bad').length
  for (const finding of findings) {
    if (out.json) out.data(finding)
    else {
      const mark =
        finding.verdict === 'ok'
          ? out.style('green', '✓')
          : finding.verdict === 'warn'
            ? out.style('yellow', '!')
            : out.style('red', '✗')
      out.line(`${mark} ${finding.check.padEnd(12)} ${finding.found}`)
      if (finding.fix !== undefined) out.line(`  ${''.padEnd(12)} → ${finding.fix}`)
    }
  }
  if (out.json)
    out.result({ ...(bad === 0 ? {} : { outcome: 'failed', fault: toMend(findings) }), bad, findings: findings.length })
  else out.line(bad === 0 ? '\nready' : `\n${bad} thing${bad === 1 ? '' : 's'} to mend`)
  return bad === 0 ? 0 : 1
}

// ---- details, in the order they are used above ----

const toMend = (findings: readonly Finding[]): FaultReport =>
  new Fault('other', {
    error: `to be mended: ${findings
      .filter(({ verdict }) => verdict === 'bad')
      .map(({ check, found }) => `${check} (${found})`)
      .join('; ')}`,
  }).report

function checkNode(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const isNew = major > 24 || (major === 24 && minor >= 12)
  return {
    check: 'Node',
    verdict: isNew ? 'ok' : 'bad',
    found: `Node ${process.versions.node}`,
    fix: isNew ? undefined : 'install Node 24.12 or newer, or start Breakfall by npm',
  }
}

/** Really runs a command in a sandbox: a binary that is there may still be forbidden. */
function checkSandbox(): Finding {
  const check = 'sandbox'
  if (process.platform !== 'linux')
    return {
      check,
      verdict: 'warn',
      found: 'no bubblewrap on this system',
      fix: 'run the runner on Linux, or allow level "process" with --allow-isolation process',
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
      found: 'bubblewrap is not installed, so commands cannot be isolated',
      fix: 'sudo apt-get install bubblewrap (or your system\'s package), or allow level "process"',
    }
  if (probe.status === 0) return { check, verdict: 'ok', found: 'level bwrap: commands run in their own namespaces' }
  return {
    check,
    verdict: 'warn',
    found: `bubblewrap does not work here: ${(probe.stderr || 'it failed').trim().split('\n')[0] ?? ''}`,
    fix: 'allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or the AppArmor profile for bwrap), or allow level "process"',
  }
}

function checkState(stateDir: string): Finding {
  try {
    return { check: 'state', verdict: 'ok', found: prepareStateDir(stateDir, { make: false }) }
  } catch (error) {
    return { check: 'state', verdict: 'bad', found: isFault(error) ? error.error : String(error) }
  }
}

const DISK_BYTES_LOW = 1024 ** 3
const DISK_BYTES_NONE = 8 * 1024 ** 2 // from here on the daemon takes up what it parked for want of room

function checkDisk(stateDir: string): Finding {
  const folder = existsSync(stateDir) ? stateDir : existsSync(dirname(stateDir)) ? dirname(stateDir) : '/'
  const { bavail, bsize } = statfsSync(folder)
  const free = bavail * bsize
  const gib = (free / 1024 ** 3).toFixed(1)
  return free < DISK_BYTES_LOW
    ? {
        check: 'disk',
        verdict: free < DISK_BYTES_NONE ? 'bad' : 'warn',
        found: `only ${free < DISK_BYTES_NONE ? `${Math.floor(free / 1024 ** 2)} MiB` : `${gib} GiB`} free for journals and outputs`,
        fix: 'free some space: where there is none, turns park until there are 8 MiB',
      }
    : { check: 'disk', verdict: 'ok', found: `${gib} GiB free` }
}

function checkTokens(stateDir: string): readonly Finding[] {
  const files = [stateDir, join(stateDir, 'runner')]
    .filter(isReadable) // where it is not, the check of the state folder says so
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
    return false // not there, or not ours
  }
}

async function checkPort(port: number | undefined): Promise<Finding> {
  if (port === undefined || port === 0)
    return { check: 'port', verdict: 'ok', found: 'a free port is taken at each start' }
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) =>
      resolve({
        check: 'port',
        verdict: 'warn',
        found: `port ${port} cannot be bound (${error.code ?? 'unknown'})`,
        fix: 'a daemon may be running already; else choose another [daemon] port',
      }),
    )
    server.listen(port, '127.0.0.1', () =>
      server.close(() => resolve({ check: 'port', verdict: 'ok', found: `port ${port} is free` })),
    )
  })
}

const checkWarnings = (loaded: LoadedConfig): readonly Finding[] =>
  loaded.warnings.map((found) => ({ check: 'environment', verdict: 'warn', found }))
