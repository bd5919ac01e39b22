/**
 * The model server of the configuration, run as a supervised child. Every attempt at it is a request that the supervisor
 * knows: a crash fails it at once, with the exit and the diagnostics of that boot.
 *
 * I1  Giving up is not forever: a changed command or file, a turn that asks for it, or a slow probe starts the server again.
 * I2  A start that was not preceded by a change is on probation: one failure gives the server up again.
 * I3  A changed command replaces the server at the next request that finds it without work. The new one starts when the old
 *     one is gone: two large models rarely fit into memory.
 */
import { type Fault, isFault } from '@breakfall/faults'
import {
  modelCommand,
  type ModelServer,
  type ModelServerSpec,
  type ServedRequest,
  serveModel,
  type ServeStatus,
  type Supervised,
  sweepOrphans,
} from '@breakfall/supervisor'
import { commandFingerprint } from './command-files.ts'
import type { ServeConfig } from './options.ts'

/** One attempt at the served model. Its address is that of the current boot: each start chooses a free port. */
export type LocalModelRequest = Omit<ServedRequest, 'url'> & { readonly baseUrl: string }

export type LocalModel = {
  /** Where the current boot answers, or null while none does. */
  readonly baseUrl: string | null
  readonly status: ServeStatus
  /** The process itself. */
  readonly child: Pick<Supervised, 'state' | 'pid' | 'report' | 'lastLine'>
  /** Waits until the server is ready, through restarts. Starts it if it was given up; rejects with a fault if that fails. */
  request(signal: AbortSignal): Promise<LocalModelRequest>
  /** Whether it answers. A server that was given up restarts if something changed, and otherwise now and then. */
  probe(): Promise<boolean>
  stop(): Promise<void>
}

export type LocalModelOptions = {
  readonly serve: ServeConfig
  /** The current configuration: it may have another command by now, or none. */
  readonly reread: () => Promise<ServeConfig | undefined>
  readonly stateDir: string
  /** Of a parked turn; sets the pace of probes. */
  readonly probeMsFirst: number
  /** Shorter limits, for tests. */
  readonly spec?: Pick<ModelServerSpec, 'limits' | 'health'> | undefined
}

export function startLocalModel(options: LocalModelOptions): LocalModel {
  sweepOrphans(options.stateDir) // a server whose daemon was killed together with the reaper
  return new SupervisedModel(options)
}

// ---- details ----

const SLOW = { first: 12, max: 120 } as const // times the first probe of a parked turn: 1 min, 2 min, … 10 min

class SupervisedModel implements LocalModel {
  readonly #options: LocalModelOptions
  #serve: ServeConfig
  #server: ModelServer
  /** Of the command and its files, when the server was last started. */
  #startedUnder = ''
  #givenUpAt = 0
  /** Starts since it was last ready that nothing but patience led to. */
  #slowStarts = 0
  /** Settles when the server before this one is gone. */
  #replaced: Promise<unknown> = Promise.resolve()
  #isStopped = false

  constructor(options: LocalModelOptions) {
    this.#options = options
    this.#serve = options.serve
    this.#server = this.#create()
    this.#start({ onProbation: false })
  }

  get baseUrl(): string | null {
    return this.#server.url === null ? null : baseUrlOf(this.#server.url)
  }

  get status(): ServeStatus {
    return this.#server.status
  }

  get child(): LocalModel['child'] {
    return this.#server.supervised
  }

  async request(signal: AbortSignal): Promise<LocalModelRequest> {
    await this.#refresh(this.#options.probeMsFirst)
    const server = this.#server
    try {
      const { url, judge, ...request } = await server.request(signal)
      return { ...request, baseUrl: baseUrlOf(url), judge: async (seen) => forTurn(await judge(seen)) }
    } catch (thrown) {
      if (server !== this.#server && !this.#isStopped) return this.request(signal) // I3: it was replaced meanwhile
      throw isFault(thrown) ? forTurn(thrown) : thrown
    }
  }

  async probe(): Promise<boolean> {
    const factor = Math.min(SLOW.max, SLOW.first * 2 ** Math.min(10, this.#slowStarts))
    await this.#refresh(factor * this.#options.probeMsFirst)
    return this.#server.url !== null
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#replaced
    await this.#server.stop()
  }

  /** `afterMs` is how long a server that was given up rests if nothing has changed. */
  async #refresh(afterMs: number): Promise<void> {
    const serve = await this.#options.reread()
    const { status } = this.#server.supervised.state
    const isChanged = serve !== undefined && !isSame(serve, this.#serve)
    if (!this.#isStopped && status !== 'busy') {
      if (isChanged) this.#replace(serve) // I3
      else if (status === 'given_up') this.#revive(afterMs)
    }
    await this.#replaced
  }

  #replace(serve: ServeConfig): void {
    const ended = [this.#replaced, this.#server.stop()]
    this.#serve = serve
    this.#slowStarts = 0
    const server = this.#create()
    this.#server = server
    this.#replaced = Promise.all(ended).then(() => {
      if (!this.#isStopped && this.#server === server) this.#start({ onProbation: false })
    })
  }

  /** I1 */
  #revive(afterMs: number): void {
    const isChanged = commandFingerprint(this.#serve.command) !== this.#startedUnder
    if (!isChanged && performance.now() - this.#givenUpAt < afterMs) return
    this.#slowStarts = isChanged ? 0 : this.#slowStarts + 1
    this.#start({ onProbation: !isChanged }) // I2
  }

  #start(options: { readonly onProbation: boolean }): void {
    this.#server.start(options).catch(() => undefined) // each turn that needs the server reports why there is none
  }

  #create(): ModelServer {
    const { command, healthPath, readyMs, env } = this.#serve
    const { args, ...named } = modelCommand(command)
    const { limits, ...spec } = this.#options.spec ?? {}
    const server = serveModel({
      ...named,
      args: (run) => {
        this.#startedUnder = commandFingerprint(command)
        return args(run)
      },
      stateDir: this.#options.stateDir,
      ...spec,
      limits: { ...limits, ...(readyMs === undefined ? {} : { startMsMax: readyMs, startTotalMsMax: readyMs }) },
      ...(healthPath === undefined ? {} : { healthPath }),
      ...(env === undefined ? {} : { env }),
    })
    server.supervised.on((event) => {
      if (event.type !== 'state') return
      if (event.state.status === 'ready') this.#slowStarts = 0
      if (event.state.status === 'given_up') this.#givenUpAt = performance.now()
    })
    return server
  }
}

const isSame = (a: ServeConfig, b: ServeConfig): boolean => JSON.stringify(a) === JSON.stringify(b)

const baseUrlOf = (url: string): string => `${url}/v1`

/** The supervisor restarts the server; what is left for the turn is to ask again. A turn waits for a server that was given up. */
function forTurn(fault: Fault): Fault {
  if (fault.report.serve?.state === 'given_up') return fault.with({ next: 'park' })
  return fault.report.next === 'restart' ? fault.with({ next: 'retry' }) : fault
}
