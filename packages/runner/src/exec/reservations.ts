/**
 * The ids that a box has used, synced to disk before anything starts: after a power cut that lost an exec's folder, its id
 * is still known and never started again.
 */
import { SyncedLines } from '../state/synced-lines.ts'

export type ReservedId = { readonly execId: string; readonly machineBootId: string; readonly hash: string }

export class Reservations {
  readonly #lines: SyncedLines

  constructor(file: string) {
    this.#lines = new SyncedLines(file)
  }

  read(): readonly ReservedId[] {
    return this.#lines.read().flatMap((line) => {
      const [execId, machineBootId, hash] = line.split(' ')
      return execId === undefined || machineBootId === undefined || hash === undefined
        ? []
        : [{ execId, machineBootId, hash }]
    })
  }

  async add({ execId, machineBootId, hash }: ReservedId): Promise<void> {
    await this.#lines.add(`${execId} ${machineBootId} ${hash}`)
  }

  close(): void {
    this.#lines.close()
  }
}
