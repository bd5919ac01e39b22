/** The `breakfall` command with a private home and a scripted model, and the checks that the tests share. */
import type { Program } from '../../test/kit/program.ts'
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Ended, hasSandbox, isolation, Place } from '../breakfall.ts'
import type { Event, Json } from '../daemon/client.ts'
import type { ModelServer } from '../../test/kit/model-server.ts'
import type { Play } from '../../test/kit/plays.ts'
import { wholeLines } from '../../test/kit/whole-lines.ts'
import { startScriptedModel } from '../answers.ts'
import { isEvent, isFault } from '../daemon/shapes.ts'

export const API_KEY = 'sk-wire-cli-5e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b'

/** An address that refuses connections. The servers of these tests listen on 127.0.0.1 only. */
export const REFUSING_URL = 'http://127.0.0.77:9009'

export const serverIsolation: readonly string[] = hasSandbox
  ? []
  : ['--allow-isolation', 'process', '--approve', 'never']

export type How = { readonly env?: Readonly<Record<string, string>>; readonly input?: string; readonly bare?: boolean }

/** A user's desk: a home, a project folder, and a model server that answers by script under the name `any`. */
export class Desk implements AsyncDisposable {
  readonly place: Place
  readonly model: ModelServer

  static async start(
    answers: readonly Play[] = [],
    files: Readonly<Record<string, string>> = {},
    ownGroup = false,
  ): Promise<Desk> {
    const desk = new Desk(await startScriptedModel(), files, ownGroup)
    desk.model.script('any', answers)
    return desk
  }

  /** `ownGroup`: each program leads a process group, as under a shell. */
  constructor(model: ModelServer, files: Readonly<Record<string, string>>, ownGroup = false) {
    this.model = model
    this.place = new Place(files, undefined, { ownGroup })
  }

  get folder(): string {
    return this.place.folder
  }
  get stateDir(): string {
    return this.place.stateDir
  }
  get configFile(): string {
    return join(this.place.home, 'config', 'breakfall', 'config.toml')
  }

  config(toml: string): void {
    this.write(this.configFile, toml)
  }

  /** A file in the project folder, or anywhere by an absolute path. */
  write(path: string, text: string, mode = 0o644): string {
    const file = path.startsWith('/') ? path : join(this.folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text, { mode })
    return file
  }

  lines(path: string): string[] {
    return wholeLines(join(this.folder, path))
  }

  /** Starts any command, with the model's address and key in the environment unless `bare`. */
  start(args: readonly string[], { env = {}, input, bare = false }: How = {}): Program {
    const model = {
      BREAKFALL_MODEL_BASE_URL: this.model.url,
      BREAKFALL_MODEL_NAME: 'any',
      BREAKFALL_MODEL_API_KEY_ENV: 'WIRE_KEY',
      WIRE_KEY: API_KEY,
    }
    return this.place.start(args, { ...(!bare && model), ...env }, input)
  }

  /** Runs a command to its end. */
  command(args: readonly string[], how: How = {}): Promise<Ended> {
    return whole(this.start(args, how))
  }

  begin(args: readonly string[] = ['go'], how: How = {}): Program {
    return this.start(['run', '--json', '--backoff-ms', '1', ...isolation, ...args], how)
  }

  /** `run --json`, checked against the parts of the contract that hold for every run. */
  async run(args: readonly string[] = ['go'], how: How = {}): Promise<Run> {
    return checked(await whole(this.begin(args, how)))
  }

  /** The daemon of this state folder, from its `daemon.json`. */
  daemon(): { pid: number; url: string } {
    return JSON.parse(readFileSync(join(this.stateDir, 'daemon.json'), 'utf8')) as { pid: number; url: string }
  }

  runnerPid(): number {
    const file = join(this.stateDir, 'runner', 'runner.json')
    return (JSON.parse(readFileSync(file, 'utf8')) as { pid: number }).pid
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.place[Symbol.asyncDispose]()
    await this.model.close()
  }
}

/** Waits for a command to end. A command that hangs is stopped, which fails its test only. */
export async function whole(running: Program): Promise<Ended> {
  const timer = setTimeout(() => running.child.kill('SIGTERM'), 90_000)
  const ended = await running.ended
  clearTimeout(timer)
  return ended
}

export type Run = {
  readonly code: number | null
  readonly events: readonly Event[]
  readonly result: Json
  readonly stderr: string
  readonly stdout: string
}

/** Every line is JSON. The last one is the result, all others are the session's events without a gap. */
export function checked(ended: Ended): Run {
  const all = ended.lines.map((line) => {
    try {
      return JSON.parse(line) as Json
    } catch {
      return assert.fail(`a line of --json that is no JSON: ${line}\n${ended.stderr}`)
    }
  })
  const result = all.pop()
  const said = `${JSON.stringify(result)}\n${ended.stderr}`
  assert.equal(result?.event, 'result', said)
  assert.ok(['finished', 'failed', 'cancelled', 'parked', 'detached'].includes(result.outcome), said)
  for (const key of ['outcome', 'turnId', 'text', 'fault', 'faultsSurvived'])
    assert.ok(key in result, `${key}: ${said}`)
  if (result.outcome === 'finished' || result.outcome === 'detached') assert.equal(result.fault, null, said)
  else isFault(result.fault)
  assert.ok(Number.isInteger(result.faultsSurvived), said)
  const events = all as Event[]
  for (const [i, event] of events.entries()) {
    isEvent(event)
    assert.equal(event.sessionId, events[0]?.sessionId, 'the events are those of one session')
    assert.equal(event.seq, (events[0]?.seq ?? 0) + i, `no gap and nothing twice: ${JSON.stringify(event)}`)
  }
  return { code: ended.code, events, result, stderr: ended.stderr, stdout: ended.lines.join('\n') }
}

export const types = (run: Run): string[] => run.events.map(({ type }) => type)
export const ofType = (run: Run, type: string): Event[] => run.events.filter((event) => event.type === type)

/** Checks outcome and exit code. On failure the message contains everything the run printed. */
export function endedWith(run: Run, code: number, outcome: string, category?: string): void {
  const said = `${JSON.stringify(run.result)}\n${types(run).join(' ')}\n${run.stderr}`
  assert.equal(run.result.outcome, outcome, said)
  assert.equal(run.code, code, said)
  if (category !== undefined) assert.equal(run.result.fault.category, category, said)
}

/** Paths of all files below a folder that contain the text. */
export function filesWith(folder: string, text: string): string[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).includes(text))
}

export const modeOf = (file: string): string => (statSync(file).mode & 0o777).toString(8)

/** Resolves when the process is gone. */
export async function gone(pid: number): Promise<void> {
  while (existsSync(`/proc/${pid}`)) await new Promise((resolve) => setTimeout(resolve, 20))
}
