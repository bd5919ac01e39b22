/** The runner as a program: `main.ts --port 0 --json --token-file F --state-dir D [--allow-workspace DIR]… [--allow-isolation process]`. */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isFault } from '@breakfall/faults'
import { ISOLATION_LEVELS, type IsolationLevel } from '@breakfall/wire'
import { userFolder } from '@breakfall/supervisor/platform'
import { startRunner } from './start.ts'
import { errorCode } from './state/json.ts'

const USAGE_EXIT = 2

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '0' },
      host: { type: 'string', default: '127.0.0.1' },
      json: { type: 'boolean', default: false },
      'token-file': { type: 'string' },
      'state-dir': { type: 'string' },
      'allow-workspace': { type: 'string', multiple: true, default: [] },
      'allow-mount': { type: 'string', multiple: true, default: [] },
      home: { type: 'string' },
      'allow-ports': { type: 'boolean', default: false },
      'allow-isolation': { type: 'string', multiple: true, default: [] },
      isolation: { type: 'string' },
      'allow-host': { type: 'string', multiple: true, default: [] },
      'idle-exit-ms': { type: 'string' },
      'boxes-max': { type: 'string' },
      'boxes-kept-max': { type: 'string' },
    },
  })
  const stateDir = values['state-dir'] ?? join(userFolder('state', process.env) ?? noHome(), 'breakfall', 'runner')
  const allowIsolation = values['allow-isolation'].map((level): 'process' => {
    if (level !== 'process') throw new TypeError(`--allow-isolation must be "process", got "${level}"`)
    return level
  })
  const runner = await startRunner({
    stateDir,
    tokenFile: values['token-file'] ?? join(stateDir, 'token'),
    port: wholeNumber('--port', values.port, 65_535),
    host: values.host,
    hosts: values['allow-host'],
    allowWorkspace: values['allow-workspace'],
    allowMount: values['allow-mount'],
    home: values.home === undefined ? undefined : homeModeOf(values.home),
    allowPorts: values['allow-ports'],
    allowIsolation,
    isolation: values.isolation === undefined ? undefined : levelOf(values.isolation),
    idleExitMs:
      values['idle-exit-ms'] === undefined ? null : wholeNumber('--idle-exit-ms', values['idle-exit-ms'], 2 ** 31 - 1),
    boxesMax: countOf('--boxes-max', values['boxes-max']),
    boxesKeptMax: countOf('--boxes-kept-max', values['boxes-kept-max']),
    onProblem: (line) => process.stderr.write(`${line}\n`),
    onIdle: () => process.exit(0),
  })
  process.stdout.on('error', () => {
    // The parent was killed before it could read our address; the next daemon finds it in runner.json.
  })
  const { url, runnerId, bootId, pid, isolation } = runner
  const note = isolation.level === 'bwrap' ? '' : ` (${isolation.because ?? ''})`
  process.stdout.write(
    values.json
      ? `${JSON.stringify({ event: 'listening', url, runnerId, bootId, pid, isolation })}\n`
      : `runner ${runnerId} at ${url}, isolation ${isolation.level}${note}, token in ${runner.tokenFile}\n`,
  )
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      void runner.close().then(() => process.exit(0))
    })
  }
}

function noHome(): never {
  throw new TypeError('this user has no home folder; set HOME to an absolute path, or pass --state-dir')
}

function levelOf(text: string): IsolationLevel {
  const level = ISOLATION_LEVELS.find((name) => name === text)
  if (level === undefined)
    throw new TypeError(`--isolation must be one of ${ISOLATION_LEVELS.join(', ')}, got "${text}"`)
  return level
}

function homeModeOf(text: string): 'real' | 'private' {
  if (text !== 'real' && text !== 'private') throw new TypeError(`--home must be real or private, got "${text}"`)
  return text
}

const countOf = (flag: string, text: string | undefined): number | undefined =>
  text === undefined ? undefined : wholeNumber(flag, text, 1_000_000)

function wholeNumber(flag: string, text: string, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (!(value <= max)) throw new TypeError(`${flag} must be an integer from 0 to ${max}, got "${text}"`)
  return value
}

main().catch((error: unknown) => {
  const isUsage = error instanceof TypeError || errorCode(error)?.startsWith('ERR_PARSE_ARGS') === true
  process.stderr.write(
    `${isFault(error) ? `${error.error} [${error.category}]` : error instanceof Error ? error.message : String(error)}\n`,
  )
  process.exit(isUsage ? USAGE_EXIT : 1)
})
