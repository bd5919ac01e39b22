/**
 * The runner on this machine: adopted if the `runner.json` in its state folder names one, or started as a detached process that
 * outlives us. Never a child to be reaped: a crash on either side must not end the other.
 */
import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { Fault, redactStart, sleep } from '@breakfall/faults'
import { isDead, isTakenByOthers, readProcess, sendSignal } from '@breakfall/supervisor/platform'
import { loadTokens } from '@breakfall/wire/node'
import type { RunnerConfig } from '../options.ts'

const START_MS = 20_000 // the isolation probe runs real commands first
const IDLE_EXIT_MS = 10 * 60_000

export type LocalRunner = {
  readonly url: string
  readonly runnerId: string
  readonly pid: number
  /** Together with the pid it identifies a process uniquely, if the system provides it. */
  readonly startTime?: number | undefined
  /** True while a process that we started runs: it may be stopped although no file names it, as on a full disk. */
  readonly isOurs?: (() => boolean) | undefined
}

export type LocalRunnerOptions = {
  readonly stateDir: string
  readonly program?: readonly string[] | undefined
  readonly idleExitMs?: number | undefined
}

const runnerFolder = (stateDir: string): string => join(stateDir, 'runner')
const runnerFile = (stateDir: string): string => join(runnerFolder(stateDir), 'runner.json')
export const runnerTokenFile = (stateDir: string): string => join(stateDir, 'runner.token')

/** The runner that the file names. The caller checks whether it answers. */
export function readRunnerFile(stateDir: string): LocalRunner | undefined {
  try {
    const found = JSON.parse(readFileSync(runnerFile(stateDir), 'utf8')) as Partial<LocalRunner>
    const { url, runnerId, pid, startTime } = found
    if (typeof url !== 'string' || typeof runnerId !== 'string' || typeof pid !== 'number') return undefined
    if (isTakenByOthers(url, runnerFile(stateDir))) return undefined // they would get our token
    return { url, runnerId, pid, startTime }
  } catch {
    // Missing, torn or unreadable: there is no runner to adopt.
    return undefined
  }
}

/** Whether its process is alive, even if it does not answer: it may be stopped, or the machine overloaded. False if unknown. */
export function isAlive({ pid, startTime }: LocalRunner): boolean {
  const found = readProcess(pid)
  return found !== undefined && !isDead(found) && found.startTime === startTime
}

/** What a runner was allowed when it was started. This cannot change while it runs. */
type RunnerGrants = {
  readonly version: typeof GRANTS_VERSION
  readonly allowWorkspace: readonly string[]
  readonly boxesMax: number | null
  readonly allowMount: readonly string[]
  readonly isolation: string | null
  readonly level: string | null
  /** The PATH on which it finds toolchains. */
  readonly path: string | null
}

const grantsOf = (config: RunnerConfig): RunnerGrants => ({
  version: GRANTS_VERSION,
  allowWorkspace: [...new Set(config.allowWorkspace ?? [])].sort(),
  allowMount: [...new Set(config.allowMount ?? [])].sort(),
  isolation: config.isolation ?? null,
  boxesMax: config.boxesMax ?? null,
  level: config.level ?? null,
  path: process.env['PATH'] ?? null,
})

/** Whether the runner that was started last on this folder allows what the configuration allows now: not less, and not more. */
export const isGranted = (stateDir: string, config: RunnerConfig): boolean =>
  isDeepStrictEqual(readGrants(stateDir), grantsOf(config))

/** Ends the runner that its file names, or that we started. Its execs keep running, and its successor adopts them. */
export async function stopLocalRunner(stateDir: string, runner: LocalRunner): Promise<void> {
  const isNamed = (): boolean => readRunnerFile(stateDir)?.pid === runner.pid
  const isSame = (): boolean => runner.startTime === undefined || isAlive(runner) // its pid may be another's by now
  const isIt = (): boolean => (isNamed() && isSame()) || runner.isOurs?.() === true
  for (let looks = 0; looks < STOP_LOOKS_MAX && isIt(); looks++) {
    const signal = looks === STOP_LOOKS_MAX / 2 ? 'SIGKILL' : looks === 0 ? 'SIGTERM' : 0
    if (!sendSignal(runner.pid, signal)) return // already gone
    await sleep(STOP_LOOK_MS)
  }
}

/** Starts a runner and waits until it reports its address. */
export function startLocalRunner(options: LocalRunnerOptions, config: RunnerConfig): Promise<LocalRunner> {
  const { stateDir } = options
  const folder = runnerFolder(stateDir)
  const tokenFile = runnerTokenFile(stateDir)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  loadTokens(tokenFile)
  const [program = process.execPath, ...before] = options.program ?? defaultProgram()
  const flags = ['--port', '0', '--json', '--token-file', tokenFile, '--state-dir', folder]
  flags.push('--idle-exit-ms', String(options.idleExitMs ?? IDLE_EXIT_MS))
  const grants = grantsOf(config)
  writeFileSync(grantsFile(stateDir), JSON.stringify(grants), { mode: 0o600 })
  for (const allowed of grants.allowWorkspace) flags.push('--allow-workspace', allowed)
  for (const mount of grants.allowMount) flags.push('--allow-mount', mount)
  if (grants.isolation === 'process') flags.push('--allow-isolation', 'process')
  if (grants.boxesMax !== null) flags.push('--boxes-max', String(grants.boxesMax))
  if (grants.level === 'process') flags.push('--isolation', 'process')
  const log = openSync(join(stateDir, 'runner.log'), 'a', 0o600)
  const child = spawn(program, [...before, ...flags], { detached: true, stdio: ['ignore', 'pipe', log] })
  closeSync(log)
  const out = child.stdout as Readable
  return new Promise((resolve, reject) => {
    const fail = (detail: string, cause?: unknown): void => {
      clearTimeout(timer)
      reject(
        new Fault('process_start_failed', {
          next: 'resolve',
          facts: { name: 'the tool runner', detail },
          ...(cause === undefined ? {} : { cause }),
        }),
      )
    }
    const timer = setTimeout(() => fail(`it did not report its address within ${START_MS / 1000} s`), START_MS)
    child.once('error', (cause) => fail('it cannot be run', cause))
    child.once('exit', (code, signal) => fail(`it ended at once with ${signal ?? `code ${code}`}; see runner.log`))
    createInterface({ input: out }).once('line', (line) => {
      const runner = listeningLine(line)
      if (runner === undefined) return fail(`it said: ${redactStart(line, 200)}`)
      clearTimeout(timer)
      child.removeAllListeners('exit')
      out.destroy()
      child.unref()
      const { pid } = child
      return resolve({
        ...runner,
        isOurs: () => pid === runner.pid && child.exitCode === null && child.signalCode === null,
      })
    })
  })
}

// ---- details ----

const STOP_LOOK_MS = 50
const STOP_LOOKS_MAX = 100 // five seconds, with SIGTERM for the first half

const grantsFile = (stateDir: string): string => join(stateDir, 'runner.grants.json')

/** Earlier runners were also allowed what runs had asked for, so they are replaced. */
const GRANTS_VERSION = 2

function readGrants(stateDir: string): unknown {
  try {
    return JSON.parse(readFileSync(grantsFile(stateDir), 'utf8'))
  } catch {
    return undefined // nothing was recorded, or it is damaged: what this runner allows is not known
  }
}

/** Next to the client, in the runner's package. */
function defaultProgram(): readonly string[] {
  const client = import.meta.resolve('@breakfall/runner/client')
  return [process.execPath, fileURLToPath(new URL(`../main${extname(client)}`, client))]
}

function listeningLine(line: string): LocalRunner | undefined {
  try {
    const said = JSON.parse(line) as Partial<LocalRunner> & { event?: unknown }
    if (said.event !== 'listening' || typeof said.url !== 'string' || typeof said.runnerId !== 'string')
      return undefined
    return { url: said.url, runnerId: said.runnerId, pid: said.pid ?? 0 }
  } catch {
    // Not JSON: the caller quotes the line.
    return undefined
  }
}
