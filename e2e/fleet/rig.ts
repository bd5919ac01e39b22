/** Daemons that share a PostgreSQL, a runner and a scripted model: real processes, each in its own home, as `breakfall` starts them. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Api } from '../../packages/daemon/test/support/api.ts'
import { type Script, startScriptedModel } from '../../packages/engine/test/support/scripted-model.ts'
import { type HoldingProxy, holdingProxy } from '../../test/kit/holding-proxy.ts'
import { type Database, newDatabase } from '../../test/kit/postgres.ts'
import type { Program } from '../../test/kit/program.ts'
import { TcpProxy } from '../../test/kit/tcp-proxy.ts'
import { eventually } from '../../test/kit/wait.ts'
import { wholeLines } from '../../test/kit/whole-lines.ts'
import { hasSandbox, Place } from '../breakfall.ts'

export const LEASE_MS = 4_000 // on a busy machine, a daemon that starts may be late by a second

export type FleetDaemon = {
  readonly name: string
  readonly api: Api
  readonly place: Place
  readonly program: Program
  readonly bootId: string
}

/** A daemon with proxies between it and everything that it uses. */
export type ProxiedDaemon = FleetDaemon & { readonly toStore: TcpProxy; readonly toRunner: HoldingProxy }

type RigParts = {
  readonly stack: AsyncDisposableStack
  readonly database: Database
  readonly env: Readonly<Record<string, string>>
  readonly workspace: string
  readonly runner: { readonly url: string; readonly tokenFile: string }
}

export class FleetRig implements AsyncDisposable {
  readonly database: Database
  readonly workspace: string
  readonly #stack: AsyncDisposableStack
  readonly #env: Readonly<Record<string, string>>
  readonly #runner: { readonly url: string; readonly tokenFile: string }
  readonly #token = 'fleet-test-token-0123456789abcdef'
  readonly #places = new Map<string, Place>()

  static async start(script: Script, own?: Promise<Database>): Promise<FleetRig> {
    const stack = new AsyncDisposableStack()
    const database = await (own ?? newDatabase())
    stack.defer(() => database.close())
    const model = await startScriptedModel(script)
    stack.defer(() => model.close())
    const place = stack.use(new Place())
    const workspace = join(place.home, 'shared')
    mkdirSync(workspace)
    const tokenFile = join(place.home, 'runner-token')
    const flags = ['--state-dir', join(place.home, 'runner'), '--token-file', tokenFile, '--port', '0', '--json']
    const loose = hasSandbox ? [] : ['--allow-isolation', 'process']
    const runner = place.start(['runner', ...flags, '--allow-workspace', workspace, ...loose])
    const { url } = await runner.listening()
    const env = { OPENAI_BASE_URL: model.baseUrl, OPENAI_API_KEY: 'k', OPENAI_MODEL: 'scripted' }
    return new FleetRig({ stack, database, env, workspace, runner: { url: String(url), tokenFile } })
  }

  constructor(parts: RigParts) {
    this.database = parts.database
    this.workspace = parts.workspace
    this.#stack = parts.stack
    this.#env = parts.env
    this.#runner = parts.runner
  }

  /** A daemon of this name; the same name again is a restart in the same folder. The last of two equal flags counts. */
  async daemon(
    name: string,
    flags: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<FleetDaemon> {
    const place = this.#places.get(name) ?? this.#stack.use(new Place())
    this.#places.set(name, place)
    mkdirSync(place.stateDir, { recursive: true, mode: 0o700 })
    const tokenFile = join(place.stateDir, 'daemon.token')
    writeFileSync(tokenFile, `${this.#token}\n`, { mode: 0o600 })
    const shared = ['--store', this.database.url, '--name', name, '--lease-ms', String(LEASE_MS)]
    const runner = ['--runner', this.#runner.url, '--runner-token-file', this.#runner.tokenFile]
    const args = ['up', '--json', '--port', '0', '--quiet', ...shared, ...runner, ...flags]
    const program = place.start(args, { ...this.#env, ...env })
    const { url, bootId } = await program.listening()
    const api = new Api({ url: String(url), token: this.#token })
    await this.ready({ name, api })
    return { name, api, place, program, bootId: String(bootId) }
  }

  async proxied(name: string, flags: readonly string[] = []): Promise<ProxiedDaemon> {
    const url = new URL(this.database.url)
    const toStore = this.#stack.use(await TcpProxy.start(Number(url.port)))
    url.port = String(toStore.port)
    const toRunner = await holdingProxy(this.#runner.url)
    this.#stack.defer(() => toRunner.close())
    const daemon = await this.daemon(name, ['--store', url.href, '--runner', toRunner.url, ...flags])
    return { ...daemon, toStore, toRunner }
  }

  async ready({ name, api }: Pick<FleetDaemon, 'name' | 'api'>): Promise<void> {
    await eventually(`${name} is ready`, async () => (await api.call('GET', '/v1/ready')).status === 200)
  }

  /** How often each tool ran, as the commands themselves noted it. */
  effects(): readonly string[] {
    return wholeLines(join(this.workspace, 'effects'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync()
  }
}
