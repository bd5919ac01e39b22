/** A daemon or a runner that can be killed, frozen and started again in its folder. */
import type { Program } from '../../../test/kit/program.ts'

export class Member {
  readonly name: string
  readonly #start: () => Promise<{ readonly program: Program; readonly url: string }>
  #program: Program | undefined
  #url = ''
  #isFrozen = false
  #isStopped = false

  /** `start` resolves when it can work. */
  constructor(name: string, start: () => Promise<{ readonly program: Program; readonly url: string }>) {
    this.name = name
    this.#start = start
  }

  get isRunning(): boolean {
    return this.#program?.isOver === false
  }

  get isFrozen(): boolean {
    return this.#isFrozen && this.isRunning
  }

  /** The URL it listens on, while it runs. */
  get url(): string | undefined {
    return this.isRunning ? this.#url : undefined
  }

  /** Starts it, unless it runs. */
  async start(): Promise<void> {
    if (this.isRunning) return
    this.#isFrozen = false
    const { program, url } = await this.#start()
    this.#program = program
    this.#url = url
  }

  async kill(): Promise<void> {
    await this.#program?.kill()
  }

  /** As an operator stops it: it hands its turns over. */
  async stop(): Promise<void> {
    this.thaw()
    await this.#program?.stop()
  }

  /** Two calls are a pair: the second one never freezes a member that was gone at the first. */
  stopOrContinue(): void {
    this.#isStopped = !this.#isStopped
    if (!this.#isStopped) this.thaw()
    else if (this.isRunning) {
      this.#isFrozen = true
      this.#program?.child.kill('SIGSTOP')
    }
  }

  thaw(): void {
    this.#isFrozen = false
    if (this.isRunning) this.#program?.child.kill('SIGCONT')
  }
}
