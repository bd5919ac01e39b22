/**
 * Files on their way into a workspace. Each lies beside its place under a name of ours until it is whole, and has a note in
 * the box's own folder: what a killed runner left unfinished the next one removes. Nothing of ours may stay in somebody's folder.
 */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../state/disk.ts'
import { type OpenFolder, openFolder } from './walk.ts'

export type Upload = { readonly name: string; /** It is in its place, or removed. */ readonly done: () => void }

export class Uploads {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** `parts` lead to the folder that it lies in. Throws where no note can be made. */
  begin(parts: readonly string[]): Upload {
    const name = `.breakfall-${randomUUID()}`
    const note = join(this.#folder, name)
    makeFolder(this.#folder)
    writeFileSync(note, JSON.stringify(parts), { mode: 0o600 })
    return { name, done: () => rmSync(note, { force: true }) }
  }

  /** Removes what an earlier process did not finish. */
  sweep(open: () => OpenFolder): void {
    for (const name of this.#noted()) {
      try {
        using folder = openFolder(open(), this.#partsIn(name))
        unlinkSync(folder.at(name))
      } catch {
        // It was finished in the last moment, or its folder is gone or another one: then it is not ours to look for.
      }
      rmSync(join(this.#folder, name), { force: true })
    }
  }

  /** The folder that the note names; throws if the note is damaged. */
  #partsIn(name: string): readonly string[] {
    const parts: unknown = JSON.parse(readFileSync(join(this.#folder, name), 'utf8'))
    if (!Array.isArray(parts)) throw new Error('the note is damaged')
    return parts.map(String)
  }

  #noted(): readonly string[] {
    try {
      return readdirSync(this.#folder).filter((name) => /^\.breakfall-[0-9a-f-]{36}$/.test(name))
    } catch {
      return [] // nothing was ever written into this box
    }
  }
}
