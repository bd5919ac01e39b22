/**
 * Knows the runner's address; looks it up again whenever a call reports that the runner is gone.
 *
 * I1  A runner is identified by its `runnerId`, not by its address: a session that started with one runner never uses another that
 *     happens to answer at the same address.
 * I2  Commands never run in the daemon instead. No runner, no command.
 * I3  Many turns that need the runner at the same time cause one look-up.
 */
import { existsSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { classify, Fault } from '@breakfall/faults'
import { createRunnerClient, type RunnerClient } from '@breakfall/runner/client'
import { loadTokens } from '@breakfall/wire/node'
import { Listeners } from '../listeners.ts'
import type { RunnerConfig } from '../options.ts'
import {
  isAlive,
  isGranted,
  type LocalRunner,
  type LocalRunnerOptions,
  readRunnerFile,
  runnerTokenFile,
  startLocalRunner,
  stopLocalRunner,
} from './local-runner.ts'
import { resolveUrl } from './resolver.ts'

export type RunnerAddress = { readonly url: string; readonly runnerId: string; readonly token: string }

type EndpointOptions = LocalRunnerOptions & {
  /** The current configuration. */
  readonly config: () => Promise<RunnerConfig>
}

export class RunnerEndpoint {
  /** The runner answered, at this address, which it did not have before. */
  readonly found = new Listeners<[address: RunnerAddress]>()
  readonly #options: EndpointOptions
  #address: RunnerAddress | undefined
  #looking: Promise<RunnerAddress> | undefined
  /** One for all sessions: they share its connections, each with its own epoch. */
  #pool: { readonly address: RunnerAddress; readonly client: RunnerClient } | undefined
  #isFirst = true
  #local: LocalRunner | undefined
  #isStarting = false
  #keepAlive: NodeJS.Timeout | undefined

  constructor(options: EndpointOptions) {
    this.#options = options
  }

  /** The last known address. */
  get address(): RunnerAddress | undefined {
    return this.#address
  }

  /** A runner on this machine is starting right now. */
  get isStarting(): boolean {
    return this.#isStarting
  }

  /** Somebody waits for the runner to be found. */
  get isLooking(): boolean {
    return this.#looking !== undefined
  }

  /** How the known runner isolates commands. */
  async isolation(signal: AbortSignal): Promise<string | undefined> {
    if (this.#address === undefined) return undefined
    const config = await this.#clientFor(this.#address).config({ signal })
    return levelIn(config)
  }

  /** A client for the session's runner, or for any runner if the session has none yet. */
  async connect(
    expect: string | null,
    epoch: number,
    signal: AbortSignal,
  ): Promise<{ client: RunnerClient; address: RunnerAddress }> {
    const address = await this.#enough(signal)
    if (expect !== null && address.runnerId !== expect) {
      this.forget(address)
      throw new Fault('runner_identity_mismatch', {
        facts: { address: hostOf(address.url) },
        errorRaw: `runner ${address.runnerId} answers, this session belongs to ${expect}`,
      })
    }
    return { client: this.#clientFor(address).withEpoch(epoch), address }
  }

  /** The runner is not at this address any more: the next `connect` looks it up again. */
  forget(address: RunnerAddress | undefined = this.#address): void {
    if (this.#address !== address) return
    this.#address = undefined
    this.#pool = undefined // calls under way end on their own, and idle connections close
  }

  /** Whether the runner with that id answers now. Looks it up again, for parked turns that wait for it. */
  async probe(expect: string | null): Promise<boolean> {
    try {
      const { runnerId } = await this.#found(AbortSignal.timeout(LOOK_MS))
      return expect === null || runnerId === expect
    } catch {
      // Whatever the problem is, the runner is not usable yet; the parked turn already says why it waits.
      this.forget()
      return false
    }
  }

  /** Also closes the connections: the runner may outlive this daemon, and would keep its end of them open. */
  async close(): Promise<void> {
    clearInterval(this.#keepAlive)
    await this.#pool?.client.close()
  }

  /** Ends the runner on this machine, for a daemon that exits with its only session. No other daemon can use its folder. */
  async stopLocal(): Promise<void> {
    const { stateDir } = this.#options
    const local = this.#local ?? readRunnerFile(stateDir) // started by a daemon that was killed, and not needed since
    if (local !== undefined && (local === this.#local || isAlive(local))) await stopLocalRunner(stateDir, local)
    this.#local = undefined
  }

  #clientFor(address: RunnerAddress): RunnerClient {
    if (this.#pool?.address !== address) {
      const { url, token, runnerId } = address
      this.#pool = { address, client: createRunnerClient({ url, token, runnerId }) }
    }
    return this.#pool.client
  }

  /**
   * A folder may have been allowed since the local runner was started, or while it was being looked up: then it is replaced. Each
   * round covers all folders allowed before it, so the second round is enough for every caller.
   */
  async #enough(signal: AbortSignal): Promise<RunnerAddress> {
    for (let round = 1; ; round++) {
      const address = this.#address ?? (await this.#found(signal))
      const isLocal = this.#local !== undefined
      if (!isLocal || round > ROUNDS_MAX || isGranted(this.#options.stateDir, await this.#options.config()))
        return address
      this.forget(address)
    }
  }

  #found(signal: AbortSignal): Promise<RunnerAddress> {
    // I3: the look-up belongs to no single caller: when one caller cancels, the others still need it.
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return raced(this.#looking, signal)
  }

  async #look(): Promise<RunnerAddress> {
    const config = await this.#options.config()
    const limit = AbortSignal.timeout(LOOK_MS)
    const url = await this.#remoteUrl(config, limit)
    const found =
      url === undefined
        ? await this.#onThisMachine(config)
        : await identified(url, tokenOf(config), limit).catch((thrown: unknown) => {
            throw limit.aborted ? unanswered(url, thrown) : thrown // a deadline of ours would end the turn
          })
    this.#isFirst = false
    if (this.#address !== undefined && isDeepStrictEqual(this.#address, found)) return this.#address // keeps its connections
    this.forget()
    this.#address = found
    if (url === undefined) this.#stayAlive(found)
    this.found.tell(found)
    return found
  }

  /** Tells a local runner now and then that its daemon is alive. */
  #stayAlive(address: RunnerAddress): void {
    clearInterval(this.#keepAlive)
    this.#keepAlive = setInterval(() => {
      if (this.#address !== address) return clearInterval(this.#keepAlive)
      this.#clientFor(address)
        .config()
        .catch(() => undefined) // the next call notices if the runner is gone
    }, KEEP_ALIVE_MS)
    this.#keepAlive.unref()
  }

  /** The configured URL is tried first, and once; after that the resolver decides, if there is one. */
  async #remoteUrl(config: RunnerConfig, signal: AbortSignal): Promise<string | undefined> {
    const isFirst = this.#isFirst
    this.#isFirst = false
    if (isFirst && config.url !== undefined) return config.url
    return (await resolveUrl(config, signal)) ?? config.url
  }

  async #onThisMachine(config: RunnerConfig): Promise<RunnerAddress> {
    const { stateDir } = this.#options
    const known = readRunnerFile(stateDir)
    if (known !== undefined) {
      const [grant] = loadTokens(config.tokenFile ?? runnerTokenFile(stateDir))
      const address = await adopted(known.url, grant?.token ?? '', known.runnerId)
      if (address !== undefined && isGranted(stateDir, config)) {
        this.#local = known
        return address
      }
      if (address === undefined && isAlive(known)) throw silent(known) // as long as it lives, no other runner can use its folder
      // It was started for other folders: a new runner with the right folders replaces it and adopts its running execs.
      if (address !== undefined) await stopLocalRunner(stateDir, known)
    }
    this.#isStarting = true
    const started = await startLocalRunner(this.#options, config).finally(() => {
      this.#isStarting = false
    })
    this.#local = started
    const [grant] = loadTokens(runnerTokenFile(stateDir))
    return { url: started.url, runnerId: started.runnerId, token: grant?.token ?? '' }
  }
}

/** A runner that we start, or that answers on loopback. */
export function isOnThisMachine({ url, resolveCommand, resolveUrl }: RunnerConfig): boolean {
  if (resolveCommand !== undefined || resolveUrl !== undefined) return false
  return url === undefined || (URL.canParse(url) && LOOPBACK.has(new URL(url).hostname))
}

/** The configuration says where a runner is, or who knows. */
export const isConfigured = ({ url, resolveCommand, resolveUrl }: RunnerConfig): boolean =>
  url !== undefined || resolveCommand !== undefined || resolveUrl !== undefined

/** The configured remote runner, after checking its identity and the token. Undefined if the runner is ours to start. */
export async function remoteRunner(config: RunnerConfig, limitMs: number): Promise<RunnerAddress | undefined> {
  const signal = AbortSignal.timeout(limitMs)
  const url = config.url ?? (await resolveUrl(config, signal))
  if (url === undefined) return undefined
  return identified(url, tokenOf(config), signal, (client) => client.listBoxes({ signal }))
}

// ---- details ----

function levelIn(config: unknown): string | undefined {
  const { isolation }: { isolation?: unknown } = { ...(typeof config === 'object' ? config : {}) }
  const { level }: { level?: unknown } = { ...(typeof isolation === 'object' ? isolation : {}) }
  return typeof level === 'string' ? level : undefined
}

const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost'])

const ROUNDS_MAX = 3
const LOOK_MS = 25_000
const KEEP_ALIVE_MS = 60_000 // a local runner exits after ten minutes without a daemon
const ADOPT_MS = 5_000

function tokenOf(config: RunnerConfig): string {
  if (config.tokenFile === undefined || !existsSync(config.tokenFile)) return '' // a generated token would be wrong
  const [grant] = loadTokens(config.tokenFile)
  return grant?.token ?? ''
}

/** Identifies the runner before any request with effects is sent. That needs no token; `ask` may. */
async function identified(
  url: string,
  token: string,
  signal: AbortSignal,
  ask?: (client: RunnerClient) => Promise<unknown>,
): Promise<RunnerAddress> {
  const client = createRunnerClient({ url, token })
  try {
    const { runnerId } = await client.health({ signal })
    await ask?.(client)
    return { url, runnerId, token }
  } finally {
    await client.close()
  }
}

const silent = ({ url, pid }: LocalRunner): Fault =>
  new Fault('runner_unreachable', {
    phase: 'resolve',
    facts: { address: hostOf(url) },
    errorRaw: `the runner (process ${pid}) is there, but does not answer at ${url}`,
  })

const unanswered = (url: string, cause: unknown): Fault =>
  new Fault('runner_unreachable', {
    phase: 'headers',
    facts: { address: hostOf(url) },
    errorRaw: `no answer within ${LOOK_MS} ms`,
    cause,
  })

async function adopted(url: string, token: string, runnerId: string): Promise<RunnerAddress | undefined> {
  try {
    const address = await identified(url, token, AbortSignal.timeout(ADOPT_MS))
    return address.runnerId === runnerId ? address : undefined
  } catch {
    // The file names a process that is gone: there is nothing to adopt.
    return undefined
  }
}

function raced<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(classify(undefined, { boundary: 'runner', signal }))
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url)
