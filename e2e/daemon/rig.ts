/** A daemon started as the contract describes, with a scripted model, and the checks that the tests share. */
import type { Program } from '../../test/kit/program.ts'
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Place } from '../breakfall.ts'
import { type Asking, call, type Event, EventStream, type Json, type Reply, Socket } from './client.ts'
import type { ModelServer } from '../../test/kit/model-server.ts'
import type { Play } from '../../test/kit/plays.ts'
import { startScriptedModel } from '../answers.ts'

export const API_KEY = 'sk-wire-9f8e7d6c5b4a39281706f5e4d3c2b1a0'

const sandbox = (process.env['PATH'] ?? '').split(':').some((folder) => existsSync(join(folder, 'bwrap')))
export const isolation: readonly string[] = sandbox ? [] : ['--allow-isolation', 'process', '--approve', 'never']

/** A private home with a scripted model and, between `up` and its end, one daemon. */
export class Rig implements AsyncDisposable {
  readonly place = new Place()
  readonly model: ModelServer
  readonly stateDir: string
  listening: Json
  #running: Program | undefined
  #streams: { close(): void }[] = []
  #names = 0

  static async start(
    options: { up?: boolean; args?: readonly string[]; env?: Record<string, string> } = {},
  ): Promise<Rig> {
    const rig = new Rig(await startScriptedModel())
    try {
      if (options.up !== false) await rig.up(options.args, options.env)
    } catch (error) {
      await rig[Symbol.asyncDispose]() // no test owns it yet, and an open server would keep the test process alive
      throw error
    }
    return rig
  }

  constructor(model: ModelServer) {
    this.model = model
    this.stateDir = join(this.place.home, 'daemon state')
  }

  get url(): string {
    return this.listening.url as string
  }
  get pid(): number {
    return this.listening.pid as number
  }
  get token(): string {
    return (
      readFileSync(this.listening.tokenFile as string, 'utf8')
        .trim()
        .split(/\s/)[0] ?? ''
    )
  }
  get stderr(): Promise<string> {
    return this.#running?.ended.then(({ stderr }) => stderr) ?? Promise.resolve('')
  }

  config(toml: string): void {
    const file = join(this.place.home, 'config', 'breakfall', 'config.toml')
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, toml)
  }

  async up(
    args: readonly string[] = [],
    env: Record<string, string> = {},
    without: readonly string[] = [],
  ): Promise<void> {
    const all = ['up', '--port', '0', '--json', '--state-dir', this.stateDir, '--allow-workspace', this.place.folder]
    const set = {
      BREAKFALL_MODEL_BASE_URL: this.model.url,
      BREAKFALL_MODEL_API_KEY_ENV: 'OPENAI_API_KEY',
      OPENAI_API_KEY: API_KEY,
      ...env,
    }
    const kept = Object.fromEntries(Object.entries(set).filter(([name]) => !without.includes(name)))
    this.#running = this.place.start([...all, '--model', 'any', ...isolation, ...args], kept)
    this.listening = await this.#running.seen((line) => line['event'] === 'listening')
  }

  async kill9(): Promise<void> {
    process.kill(this.pid, 'SIGKILL')
    await this.#running?.ended
  }

  /** Sends SIGTERM and waits for the end. */
  async stop(): Promise<string> {
    process.kill(this.pid, 'SIGTERM')
    return (await this.#running?.ended)?.stderr ?? ''
  }

  call(method: string, path: string, asking: Asking = {}): Promise<Reply> {
    return call(this.url, method, path, { token: this.token, ...asking })
  }

  /** A session with a unique model name that answers by the script. */
  async session(answers: readonly Play[], more: Json = {}): Promise<{ id: string; model: string; record: Json }> {
    const model = `m${++this.#names}`
    this.model.script(model, answers)
    const made = await this.call('POST', '/v1/sessions', {
      body: { model, ...more, policy: { backoffMs: 1, ...more.policy } },
    })
    assert.equal(made.status, 201, made.text)
    return { id: made.json.id, model, record: made.json }
  }

  prompt(sessionId: string, prompt: string, more: Json = {}, headers: Record<string, string> = {}): Promise<Reply> {
    return this.call('POST', `/v1/sessions/${sessionId}/turns`, { body: { prompt, ...more }, headers })
  }

  /** Starts a turn and follows its session's events from the start. */
  async turn(sessionId: string, prompt = 'go'): Promise<{ turnId: string; seq: number; events: EventStream }> {
    const receipt = await this.prompt(sessionId, prompt)
    assert.equal(receipt.status, 202, receipt.text)
    return { ...receipt.json, events: await this.events(sessionId, '?after=0') }
  }

  /** Runs a turn to its terminal event. */
  async wholeTurn(
    sessionId: string,
    prompt = 'go',
  ): Promise<{ turnId: string; events: readonly Event[]; last: Event }> {
    const { turnId, events } = await this.turn(sessionId, prompt)
    const last = await events.ended(turnId)
    events.close()
    return { turnId, events: events.events, last }
  }

  async events(sessionId: string, query = '', headers: Record<string, string> = {}): Promise<EventStream> {
    const stream = await EventStream.open(this.url, `/v1/sessions/${sessionId}/events${query}`, {
      authorization: `Bearer ${this.token}`,
      ...headers,
    })
    this.#streams.push(stream)
    return stream
  }

  async socket(how: { headers?: Record<string, string>; protocols?: string[] } = {}): Promise<Socket> {
    const socket = await Socket.open(
      this.url,
      how.headers ?? (how.protocols === undefined ? { authorization: `Bearer ${this.token}` } : {}),
      how.protocols ?? [],
    )
    this.#streams.push(socket)
    return socket
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stream of this.#streams) stream.close()
    await this.place[Symbol.asyncDispose]()
    await this.model.close()
  }
}

/** The text of each step, as a client assembles it that appends deltas and drops discarded parts. */
export function assembled(events: readonly Event[], turnId: string): Map<number, string> {
  const parts = new Map<string, { step: number; text: string }>()
  for (const event of events) {
    if (event.turnId !== turnId) continue
    const key = `${event['step']}/${event['attempt']}/${event['part']}`
    if (event.type === 'text-delta')
      parts.set(key, { step: event['step'], text: (parts.get(key)?.text ?? '') + event['text'] })
    if (event.type === 'part-discarded') parts.delete(key)
  }
  const steps = new Map<number, string>()
  for (const { step, text } of parts.values()) steps.set(step, (steps.get(step) ?? '') + text)
  return steps
}

/** Whether a `sleep` with this unusual number of seconds runs on the machine, inside or outside a box. */
export function sleeps(seconds: string): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `sleep\0${seconds}\0`
    } catch {
      return false // ended while we looked
    }
  })
}
