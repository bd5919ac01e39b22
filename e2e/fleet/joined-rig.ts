/** Daemons that share a PostgreSQL, and runners that join them. The configured runner does not exist: what the configuration says about it does not matter. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Script, startScriptedModel } from '../../packages/engine/test/support/scripted-model.ts'
import { newDatabase } from '../../test/kit/postgres.ts'
import type { Program } from '../../test/kit/program.ts'
import { hasSandbox, Place } from '../breakfall.ts'
import { type FleetDaemon, FleetRig } from './rig.ts'

export type FleetRunner = {
  readonly id: string
  readonly url: string
  readonly program: Program
  readonly tokenFile: string
}

export class JoinedRig implements AsyncDisposable {
  readonly keyFile: string
  readonly workspace: string
  readonly #rig: FleetRig
  readonly #stack: AsyncDisposableStack
  readonly #places = new Map<string, Place>()

  static async start(script: Script): Promise<JoinedRig> {
    const stack = new AsyncDisposableStack()
    const database = await newDatabase()
    stack.defer(() => database.close())
    const model = await startScriptedModel(script)
    stack.defer(() => model.close())
    const place = stack.use(new Place())
    const workspace = join(place.home, 'shared')
    mkdirSync(workspace)
    const keyFile = join(place.home, 'fleet.key')
    writeFileSync(keyFile, 'a key of at least sixteen characters\n', { mode: 0o600 })
    const env = { OPENAI_BASE_URL: model.baseUrl, OPENAI_API_KEY: 'k', OPENAI_MODEL: 'scripted' }
    const runner = { url: 'http://127.0.0.1:9', tokenFile: keyFile } // nothing answers there
    return new JoinedRig(stack, new FleetRig({ stack, database, env, workspace, runner }), keyFile)
  }

  constructor(stack: AsyncDisposableStack, rig: FleetRig, keyFile: string) {
    this.#stack = stack
    this.#rig = rig
    this.keyFile = keyFile
    this.workspace = rig.workspace
  }

  daemon(name: string, env: Readonly<Record<string, string>> = {}): Promise<FleetDaemon> {
    return this.#rig.daemon(name, ['--fleet-key-file', this.keyFile], env)
  }

  /** A runner of this name; the same name again is a restart in the same folder, at another port. */
  async runner(name: string, daemons: readonly FleetDaemon[], flags: readonly string[]): Promise<FleetRunner> {
    const place = this.#places.get(name) ?? this.#stack.use(new Place())
    this.#places.set(name, place)
    const joins = daemons.flatMap(({ api }) => ['--join', api.url])
    const loose = hasSandbox ? [] : ['--allow-isolation', 'process']
    const folder = ['--state-dir', join(place.home, 'runner'), '--allow-workspace', this.workspace, ...loose]
    const program = place.start(['runner', '--json', ...folder, ...joins, ...flags])
    const { url, runnerId } = await program.listening()
    return { id: String(runnerId), url: String(url), program, tokenFile: join(place.home, 'runner', 'token') }
  }

  effects(): readonly string[] {
    return this.#rig.effects()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync()
  }
}
