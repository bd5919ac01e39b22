/** A real daemon with a rehearsal model behind the fault proxy, started like a person starts it, then killed. */
import { cpSync, globSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type FaultProxy, startFaultProxy, startRehearsalModel, startTcpProxy, type TcpProxy } from '@breakfall/chaos'
import { SseDecoder } from '@breakfall/wire'
import { hasSandbox, Place } from '../../../../e2e/breakfall.ts'
import { type Script, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import type { Program } from '../../../../test/kit/program.ts'

type Json = Readonly<Record<string, unknown>>

export class RealDaemon implements AsyncDisposable {
  readonly place = new Place()
  readonly #model: { close(): Promise<void> }
  readonly proxy: FaultProxy
  /** The line to the model. */
  readonly #line: TcpProxy
  #isCut = false
  readonly #flags: readonly string[]
  readonly #env: Readonly<Record<string, string>>
  #program: Program | undefined
  url = ''
  pid = 0
  token = ''

  private constructor(
    model: { close(): Promise<void> },
    proxy: FaultProxy,
    line: TcpProxy,
    { flags, env }: { flags: readonly string[]; env: Readonly<Record<string, string>> },
  ) {
    this.#model = model
    this.proxy = proxy
    this.#line = line
    this.#flags = flags
    this.#env = env
  }

  static async start(
    options: {
      plan?: string
      model?: string
      flags?: readonly string[]
      env?: Readonly<Record<string, string>>
      /** Instead of the rehearsal model. */
      script?: Script
    } = {},
  ): Promise<RealDaemon> {
    const model = options.script === undefined ? await startRehearsalModel() : await startScriptedModel(options.script)
    const upstream = 'url' in model ? model.url : model.baseUrl
    const proxy = await startFaultProxy({ upstream, plan: options.plan ?? 'none' })
    const flags = ['--model', options.model ?? 'rehearsal/steps-12', ...(options.flags ?? [])]
    const line = await startTcpProxy({ upstream: { port: Number(new URL(proxy.url).port) } })
    const real = new RealDaemon(model, proxy, line, { flags, env: options.env ?? {} })
    await real.up()
    return real
  }

  /** Without --port: it takes the one it had before. */
  async up(more: readonly string[] = []): Promise<void> {
    const isolation = hasSandbox ? [] : ['--allow-isolation', 'process']
    const baseUrl = this.proxy.url.replace(/:\d+/, `:${this.#line.port}`)
    const where = ['--base-url', baseUrl, '--allow-workspace', this.place.folder]
    this.#program = this.place.start(['up', '--json', ...where, ...isolation, ...this.#flags, ...more], this.#env)
    const listening: Json = await this.#program.listening()
    this.url = String(listening['url'])
    this.pid = Number(listening['pid'])
    this.token = readFileSync(String(listening['tokenFile']), 'utf8').trim().split(/\s/)[0] ?? ''
  }

  async kill9(): Promise<void> {
    process.kill(this.pid, 'SIGKILL')
    await this.#program?.ended
  }

  async stop(): Promise<void> {
    process.kill(this.pid, 'SIGTERM')
    await this.#program?.ended
  }

  /** The model is unreachable until the line is restored. */
  async cutLine(): Promise<void> {
    this.#isCut = true
    await this.#line.down()
  }

  async mendLine(): Promise<void> {
    if (this.#isCut) await this.#line.up()
    this.#isCut = false
  }

  /** As a crash does it. The daemon starts another one. */
  killRunner(): void {
    const [file = ''] = globSync('**/runner.json', { cwd: this.place.stateDir })
    const { pid } = JSON.parse(readFileSync(join(this.place.stateDir, file), 'utf8')) as { pid: number }
    process.kill(pid, 'SIGKILL')
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal)
  }

  open(hash = '/'): string {
    return `${this.url}/#token=${this.token}&to=${encodeURIComponent(hash)}`
  }

  async call(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Json> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const value: unknown = text === '' ? {} : JSON.parse(text)
    return { status: response.status, ...(typeof value === 'object' && value !== null ? value : {}) }
  }

  /** A session with a turn that runs. */
  async turn(prompt = 'go', create: Json = {}): Promise<{ readonly id: string; readonly turnId: string }> {
    const session = await this.call('POST', '/v1/sessions', { box: { workspace: this.place.folder }, ...create })
    const id = String(session['id'])
    const receipt = await this.call('POST', `/v1/sessions/${id}/turns`, { prompt })
    return { id, turnId: String(receipt['turnId']) }
  }

  /** Everything in the journal, by the export that `breakfall tail` reads too. */
  async events(id: string): Promise<readonly (Json & { readonly type: string })[]> {
    const over = new AbortController()
    const response = await fetch(`${this.url}/v1/sessions/${id}/events?after=0`, {
      headers: { authorization: `Bearer ${this.token}` },
      signal: over.signal,
    })
    const { lastSeq } = await this.call('GET', `/v1/sessions/${id}`)
    const events: (Json & { readonly type: string })[] = []
    const decoder = new SseDecoder({
      onEvent: ({ data }) => {
        const event: unknown = JSON.parse(data)
        if (typeof event === 'object' && event !== null && 'type' in event)
          events.push({ ...event, type: String(event.type) })
      },
    })
    const body: AsyncIterable<Uint8Array> | null = response.body
    for await (const chunk of body ?? []) {
      decoder.push(chunk)
      if (Number(events.at(-1)?.['seq'] ?? 0) >= Number(lastSeq)) break // more may arrive meanwhile
    }
    over.abort()
    return events
  }

  /** Copies the journal, between a stop and an up. Returns what puts the copy back. */
  backUp(): () => void {
    const journal = join(this.place.stateDir, 'journal')
    const copy = join(this.place.home, 'backup')
    cpSync(journal, copy, { recursive: true })
    return () => {
      rmSync(journal, { recursive: true })
      cpSync(copy, journal, { recursive: true })
    }
  }

  /** Deletes the journal, between a stop and an up. */
  forgetSessions(): void {
    for (const file of globSync('**/*.db*', { cwd: this.place.stateDir }))
      rmSync(join(this.place.stateDir, file), { force: true })
    for (const file of globSync('**/journal*', { cwd: this.place.stateDir }))
      rmSync(join(this.place.stateDir, file), { force: true, recursive: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.place[Symbol.asyncDispose]()
    await this.#line.close()
    await this.proxy.close()
    await this.#model.close()
  }
}
