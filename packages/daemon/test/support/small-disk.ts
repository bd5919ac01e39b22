/** A disk of its own that is soon full, where making one is allowed. Elsewhere the test is skipped. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { afterwards, tempFolder } from './setup.ts'

export type SmallDisk = {
  readonly folder: string
  grow(size: string): void
  /** Takes the room there is, but for some bytes. Returns how to give it back. */
  fill(but?: number): () => void
}

export function smallDisk(t: TestContext, size: string): SmallDisk | undefined {
  const folder = join(tempFolder(t), 'state')
  mkdirSync(folder)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'pipe' })
  } catch (error) {
    t.skip(`needs the right to mount a small file system: ${String(error).slice(0, 100)}`)
    return undefined
  }
  afterwards(t, () => execFileSync('umount', ['--lazy', folder]))
  return {
    folder,
    grow: (to) => void execFileSync('mount', ['-o', `remount,size=${to}`, folder]),
    fill: (but = 0) => {
      const ballast = join(folder, 'ballast')
      const { bavail, bsize } = statfsSync(folder)
      try {
        writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - but)))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error // somebody took the last of it meanwhile
      }
      return () => rmSync(ballast)
    },
  }
}
