/**
 * Where the runner is. One place that knows; found anew whenever a call says that it is not there any more.
 *
 * I1  A runner is used by who it is (`runnerId`), not by where it is: a session that has begun with one never goes to
 *     another that happens to answer at the same address.
 * I2  There is no fall-back to running commands in the daemon. No runner, no command.
 * I3  Many turns that need the runner at once cause one look-up.
 */
import { existsSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { classify, Fault } from '@breakfall/faults'
import { createRunnerClient, type RunnerClient } from '@breakfall/runner/client'
import { loadTokens } from '@breakfall/wire/node'
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

export type EndpointOptions = LocalRunnerOptions & {
  /** The configuration as it is now. */
  readonly config: () => Promise<RunnerConfig>
  readonly onFound?: ((address: RunnerAddress) => void) | undefined
}

export class RunnerEndpoint {
  readonly #options: EndpointOptions
  #address: RunnerAddress | undefined
  #looking: Promise<RunnerAddress> | undefined
  #clients = new Map<number, RunnerClient>()
  #isFirst = true
  #local: LocalRunner | undefined
  #isStarting = false
  #keepAlive: NodeJS.Timeout | undefined

  constructor(options: EndpointOptions) {
    this.#options = options
  }

  /** Where it was when last seen. */
  get address(): RunnerAddress | undefined {
    return this.#address
  }

  /** One is just being started on this machine: it is not there yet, but on its way. */
  get isStarting(): boolean {
    return this.#isStarting
  }

  /** A client for the runner that the session belongs to; for any, where it has none yet. */
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
    return { client: this.#client(address, epoch), address }
  }

  /** What was at this address is not there any more: the next connect looks again. */
  forget(address: RunnerAddress | undefined = this.#address): void {
    if (this.#address !== address) return
    this.#address = undefined
    this.#clients = new Map() // those in use end with their calls; idle connections close by themselves
  }

  /** Is the runner of that identity there now? Looked up anew, for parked turns that wait for it. */
  async probe(expect: string | null): Promise<boolean> {
    try {
      const { runnerId } = await this.#found(AbortSignal.timeout(LOOK_MS))
      return expect === null || runnerId === expect
    } catch {
      // Whatever is wrong, it cannot be used yet; the parked turn already says why it waits.
      this.forget()
      return false
    }
  }

  close(): void {
    clearInterval(this.#keepAlive)
  }

  /** Ends the runner on this machine, for a daemon that goes away with its only session. No other daemon can use its folder. */
  async stopLocal(): Promise<void> {
    const { stateDir } = this.#options
    const local = this.#local ?? readRunnerFile(stateDir) // started by one that was killed, and not needed since
    if (local !== undefined && (local === this.#local || isAlive(local))) await stopLocalRunner(stateDir, local)
    this.#local = undefined
  }

  /** Sessions of the same epoch share a client, and with it the connections. */
  #client({ url, token, runnerId }: RunnerAddress, epoch: number): RunnerClient {
    let client = this.#clients.get(epoch)
    if (client === undefined) {
      client = createRunnerClient({ url, token, runnerId, epoch })
      this.#clients.set(epoch, client)
    }
    return client
  }

  /**
   * A folder may have been allowed since the runner on this machine was started, or while it was being looked for: then it is
   * replaced. Each round knows all that was allowed before it, so the second one is enough for whoever asks.
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
    // I3: the look-up is nobody's in particular, so one caller's cancel must not end it for the others.
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return raced(this.#looking, signal)
  }

  async #look(): Promise<RunnerAddress> {
    const config = await this.#options.config()
    const limit = AbortSignal.timeout(LOOK_MS)
    const url = await this.#remoteUrl(config, limit)
    const found = url === undefined ? await this.#onThisMachine(config) : await identified(url, tokenOf(config), limit)
    this.#isFirst = false
    if (this.#address !== undefined && isDeepStrictEqual(this.#address, found)) return this.#address // its connections stay
    this.forget()
    this.#address = found
    if (url === undefined) this.#stayAlive(found)
    this.#options.onFound?.(found)
    return found
  }

  /** Tells a local runner from time to time that its daemon is there. */
  #stayAlive(address: RunnerAddress): void {
    clearInterval(this.#keepAlive)
    this.#keepAlive = setInterval(() => {
      if (this.#address !== address) return clearInterval(this.#keepAlive)
      this.#client(address, 0)
        .config()
        .catch(() => undefined) // whether it is there is found out by whoever needs it
    }, KEEP_ALIVE_MS)
    this.#keepAlive.unref()
  }

  /** The configured URL is tried first and once; after that a resolver, where there is one, knows better. */
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
      if (address === undefined && isAlive(known)) throw silent(known) // its folder is its own as long as it lives
      // It was started for other folders: one with the right ones takes its place, and takes up what runs.
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

/** The runner that a configuration names, asked who it is and whether it takes the token; undefined where it is ours to start. */
export async function remoteRunner(config: RunnerConfig, limitMs: number): Promise<RunnerAddress | undefined> {
  const signal = AbortSignal.timeout(limitMs)
  const url = config.url ?? (await resolveUrl(config, signal))
  if (url === undefined) return undefined
  return identified(url, tokenOf(config), signal, (client) => client.listBoxes({ signal }))
}

// ---- details ----

const ROUNDS_MAX = 3
const LOOK_MS = 25_000
const KEEP_ALIVE_MS = 60_000 // a local runner ends by itself after ten minutes without a daemon
const ADOPT_MS = 5_000

function tokenOf(config: RunnerConfig): string {
  if (config.tokenFile === undefined || !existsSync(config.tokenFile)) return '' // one made up here would fit nobody
  const [grant] = loadTokens(config.tokenFile)
  return grant?.token ?? ''
}

/** Asks who is there before anything is sent that could have an effect. That needs no token; what is asked besides may. */
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

async function adopted(url: string, token: string, runnerId: string): Promise<RunnerAddress | undefined> {
  try {
    const address = await identified(url, token, AbortSignal.timeout(ADOPT_MS))
    return address.runnerId === runnerId ? address : undefined
  } catch {
    // The file is older than the process it names: nobody to adopt.
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
