/** A runner of a local fleet, behind a door. Every start is at another address, and so is its door. */
import { Member } from './member.ts'
import { RunnerDoor, type StartHold } from './runner-door.ts'

export class FleetRunner {
  readonly member: Member
  readonly #hold: StartHold
  #door: RunnerDoor | undefined

  /** Daemons place no box at it before it has joined. */
  constructor(
    name: string,
    args: readonly string[],
    env: Readonly<Record<string, string | undefined>>,
    hold: StartHold,
  ) {
    this.#hold = hold
    this.member = new Member(name, () => [...args, '--advertise', this.#door?.url ?? ''], env, {
      startsWith: 'joined',
      onListening: (url) => this.#door?.leadsTo(url),
    })
  }

  /** Where daemons reach it. */
  get door(): RunnerDoor | undefined {
    return this.member.isRunning ? this.#door : undefined
  }

  /** Starts it, unless it runs. */
  async start(): Promise<void> {
    if (this.member.isRunning) return
    await this.#door?.close()
    this.#door = await RunnerDoor.open(this.#hold)
    await this.member.start()
  }

  async stop(): Promise<void> {
    await this.member.stop()
    await this.#door?.close()
    this.#door = undefined
  }

  async kill(): Promise<void> {
    await this.member.kill()
    await this.#door?.close()
    this.#door = undefined
  }
}
