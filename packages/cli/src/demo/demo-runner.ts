/** A runner that comes back when it is killed, at the same port and with the same boxes. Its commands survive in their keepers. */
import { createRunnerClient } from '@breakfall/runner/client'
import { type RunnerProcess, startRunnerProcess } from '../rehearsal/runner-process.ts'

export class DemoRunner {
  readonly #options: Parameters<typeof startRunnerProcess>[0]
  #process: RunnerProcess
  #isStopping = false

  private constructor(options: Parameters<typeof startRunnerProcess>[0], first: RunnerProcess) {
    this.#options = { ...options, port: new URL(first.url).port }
    this.#process = first
    this.#watch(first)
  }

  static async start(options: Parameters<typeof startRunnerProcess>[0]): Promise<DemoRunner> {
    return new DemoRunner(options, await startRunnerProcess(options))
  }

  get url(): string {
    return this.#process.url
  }

  get tokenFile(): string {
    return this.#process.tokenFile
  }

  kill(): void {
    this.#process.kill()
  }

  /** Ends every command, then the runner. */
  async stop(token: string): Promise<void> {
    this.#isStopping = true
    const client = createRunnerClient({ url: this.url, token })
    try {
      for (const { id } of await client.listBoxes()) await client.removeBox(id)
    } catch {
      // It was killed a moment ago: the scratch folder goes, and what still runs ends with its output.
    } finally {
      await client.close()
    }
    await this.#process.stop()
  }

  #watch(running: RunnerProcess): void {
    void running.ended.then(async () => {
      if (this.#isStopping) return
      this.#process = await startRunnerProcess(this.#options)
      this.#watch(this.#process)
    })
  }
}
