/** The runner as a program, with the flags of flags.ts: `main.ts --json --state-dir D [--allow-workspace DIR]…`. */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isFault } from '@breakfall/faults'
import { errorCode, messageOf } from '@breakfall/faults/internal'
import { userFolder } from '@breakfall/supervisor/platform'
import { flagNameOf, readNumber, RUNNER_FLAGS, type RunnerFlag, type RunnerFlags } from './flags.ts'
import { startRunner } from './server/start.ts'

const USAGE_EXIT = 2

async function main(): Promise<void> {
  const { flags, isJson, stateDir } = readFlags()
  const { allowHost, allowIsolation, tokenFile = join(stateDir, 'token') } = flags
  const runner = await startRunner({
    ...flags,
    stateDir,
    tokenFile,
    hosts: allowHost,
    allowIsolation: allowIsolation === undefined ? [] : [allowIsolation],
    onProblem: (line) => process.stderr.write(`${line}\n`),
    onIdle: () => process.exit(0),
  })
  process.stdout.on('error', () => {
    // The parent was killed before it could read our address; the next daemon finds it in runner.json.
  })
  const { url, runnerId, bootId, pid, isolation } = runner
  const note = isolation.level === 'bwrap' ? '' : ` (${isolation.because ?? ''})`
  process.stdout.write(
    isJson
      ? `${JSON.stringify({ event: 'listening', url, runnerId, bootId, pid, isolation })}\n`
      : `runner ${runnerId} at ${url}, isolation ${isolation.level}${note}, token in ${runner.tokenFile}\n`,
  )
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      void runner.close().then(() => process.exit(0))
    })
  }
}

function readFlags(): { readonly flags: RunnerFlags; readonly isJson: boolean; readonly stateDir: string } {
  const table: readonly (readonly [string, RunnerFlag])[] = Object.entries(RUNNER_FLAGS)
  const options: Record<string, { type: 'boolean' | 'string'; multiple?: boolean }> = {
    json: { type: 'boolean' },
    'state-dir': { type: 'string' },
  }
  for (const [name, { word, read }] of table)
    options[flagNameOf(name)] = { type: word === undefined ? 'boolean' : 'string', multiple: read === 'list' }
  const { values } = parseArgs({ options })
  const chosen = table.map(([name, flag]) => {
    const value = values[flagNameOf(name)]
    return [name, typeof value === 'string' ? valueOf(flagNameOf(name), flag, value) : (value ?? flag.initial)] as const
  })
  const { json, 'state-dir': folder } = values
  const stateDir =
    typeof folder === 'string' ? folder : join(userFolder('state', process.env) ?? noHome(), 'breakfall', 'runner')
  return { flags: Object.fromEntries(chosen) as RunnerFlags, isJson: json === true, stateDir }
}

function noHome(): never {
  throw new TypeError('this user has no home folder; set HOME to an absolute path, or pass --state-dir')
}

function valueOf(name: string, { choices, read }: RunnerFlag, text: string): string | number {
  const refuse = (expected: string): never => {
    throw new TypeError(`--${name} must be ${expected}, got "${text}"`)
  }
  if (choices !== undefined && !choices.includes(text)) return refuse(`one of ${choices.join(', ')}`)
  if (read === undefined || read === 'list') return text
  return readNumber(read, text) ?? refuse(`a number (${read})`)
}

main().catch((error: unknown) => {
  const isUsage = error instanceof TypeError || errorCode(error)?.startsWith('ERR_PARSE_ARGS') === true
  process.stderr.write(`${isFault(error) ? `${error.error} [${error.category}]` : messageOf(error)}\n`)
  process.exit(isUsage ? USAGE_EXIT : 1)
})
