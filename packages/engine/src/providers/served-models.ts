/**
 * The model servers that this daemon runs, one supervisor each. The default provider's server starts with the daemon; the others
 * start when a turn first needs them, because two models rarely fit into memory together for nothing.
 */
import { type LocalModel, type LocalModelOptions, startLocalModel } from '../model-server.ts'
import type { ServeConfig } from '../options.ts'

type Options = Omit<LocalModelOptions, 'serve' | 'reread'> & {
  readonly reread: (provider: string) => Promise<ServeConfig | undefined>
}

export class ServedModels {
  readonly #options: Options
  readonly #running = new Map<string, LocalModel>()

  constructor(options: Options) {
    this.#options = options
  }

  /** The provider's server, if it runs. */
  peek(provider: string): LocalModel | undefined {
    return this.#running.get(provider)
  }

  /** Starts the provider's server unless it runs. */
  start(provider: string, serve: ServeConfig): LocalModel {
    const running = this.#running.get(provider)
    if (running !== undefined) return running
    const { reread, ...options } = this.#options
    const started = startLocalModel({ ...options, serve, reread: () => reread(provider) })
    this.#running.set(provider, started)
    return started
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#running.values()].map((server) => server.stop()))
  }
}
