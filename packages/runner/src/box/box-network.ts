/**
 * The shared network of a box: made when something first needs it, kept across restarts of the runner, gone with the box's
 * stop. If its holder is killed, running sandboxes keep the old network and new ones get another, which the processes'
 * records say (`network_lost`).
 */
import { rmSync } from 'node:fs'
import { isObject } from '@breakfall/faults/internal'
import { sendSignal } from '@breakfall/supervisor/platform'
import { isThere, prove, type Proven } from '../exec/process-table.ts'
import { joining, type NetworkTools, startHolder } from '../isolation/shared-network.ts'
import { readJsonFile, writeJsonDurably } from '../lib/disk.ts'

export class BoxNetwork {
  readonly #tools: NetworkTools
  readonly #file: string
  readonly #machineBootId: string
  readonly #onLost: () => void
  #holder: Proven | undefined
  #starting: Promise<void> | undefined

  constructor(tools: NetworkTools, file: string, machineBootId: string, onLost: () => void) {
    this.#tools = tools
    this.#file = file
    this.#machineBootId = machineBootId
    this.#onLost = onLost
    this.#holder = this.#stored()
  }

  /** The words before bubblewrap; undefined if the box has no shared network. */
  get join(): readonly string[] | undefined {
    return this.#isUp() && this.#holder !== undefined ? joining(this.#tools, this.#holder.pid) : undefined
  }

  /** Resolves when there is one. A later one has another process. */
  async ensure(): Promise<void> {
    if (this.#isUp()) return
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined
    })
    await this.#starting
  }

  close(): void {
    rmSync(this.#file, { force: true })
    if (this.#holder !== undefined && isThere(this.#holder)) sendSignal(this.#holder.pid, 'SIGKILL')
    this.#holder = undefined
  }

  // ---- details ----

  #isUp(): boolean {
    return this.#holder !== undefined && isThere(this.#holder)
  }

  async #start(): Promise<void> {
    if (this.#holder !== undefined) this.#onLost()
    writeJsonDurably(this.#file, {}) // the holder lives as long as this file
    const holder = prove(await startHolder(this.#tools, this.#file))
    if (holder === undefined) throw new Error('the holder of the network ended')
    writeJsonDurably(this.#file, { ...holder, machineBootId: this.#machineBootId })
    this.#holder = holder
  }

  #stored(): Proven | undefined {
    try {
      const json = readJsonFile(this.#file)
      if (!isObject(json) || json['machineBootId'] !== this.#machineBootId) return undefined
      const { pid, startTime } = json
      return typeof pid === 'number' && typeof startTime === 'number' ? { pid, startTime } : undefined
    } catch {
      return undefined // damaged: the next process that needs a network makes one
    }
  }
}
