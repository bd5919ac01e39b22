/** Temporary folders that are gone when the test is. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type AfterHook = { after(clean: () => unknown): void }

export const newFolder = (name = 'test'): string => mkdtempSync(join(tmpdir(), `breakfall-${name}-`))

/**
 * Node stops without an error at an entry that somebody else removed meanwhile, as a runner does that still empties its trash.
 * So this goes on until the folder is gone.
 */
export function removeFolder(folder: string): void {
  for (let tries = 0; tries < 100 && existsSync(folder); tries += 1)
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}

/** A new folder that is removed at the end of the test, after everything that was set up later. */
export function tempFolder(t: AfterHook, name?: string): string {
  const folder = newFolder(name)
  atEnd(t, () => removeFolder(folder))
  return folder
}

const endings = new WeakMap<object, (() => unknown)[]>()

/** Runs at the end of the test, last registered first: what was built on something goes before it. */
export function atEnd(t: AfterHook, clean: () => unknown): void {
  const known = endings.get(t)
  if (known !== undefined) {
    known.push(clean)
    return
  }
  const list = [clean]
  endings.set(t, list)
  t.after(async () => {
    for (const next of list.toReversed()) await next()
  })
}
