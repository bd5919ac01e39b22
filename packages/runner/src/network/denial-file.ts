/**
 * Keeps a box's refused names on disk, so people still see them after a restart of the runner. Written at most once a second
 * and not synced: a box may try again and again, and nothing but that list depends on it.
 */
import { replaceFile } from '@breakfall/supervisor/platform'
import { readJsonFile } from '../state/disk.ts'
import type { Denials } from './denials.ts'

const SAVE_MS = 1_000

export class DenialFile {
  readonly #file: string
  readonly #denials: Denials
  #timer: NodeJS.Timeout | undefined

  constructor(file: string, denials: Denials) {
    this.#file = file
    this.#denials = denials
    try {
      denials.read(readJsonFile(file))
    } catch {
      // Damaged: the list starts empty.
    }
  }

  saveSoon(): void {
    this.#timer ??= setTimeout(() => this.save(), SAVE_MS)
    this.#timer.unref()
  }

  /** If there is something new. */
  save(): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    try {
      replaceFile(this.#file, JSON.stringify(this.#denials.list))
    } catch {
      // The disk is full, or the box was removed.
    }
  }
}
