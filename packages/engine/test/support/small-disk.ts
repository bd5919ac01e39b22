/** A small separate disk, if the system allows one. Otherwise the test is skipped. */
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

export type SmallDisk = {
  readonly folder: string
  grow(size: string): void
  /** Fills the disk, except for some bytes. Returns a function that frees the space. */
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
  atEnd(t, () => execFileSync('umount', ['--lazy', folder]))
  return {
    folder,
    grow: (to) => void execFileSync('mount', ['-o', `remount,size=${to}`, folder]),
    fill: (but = 0) => {
      const ballast = join(folder, 'ballast')
      const { bavail, bsize } = statfsSync(folder)
      try {
        writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - but)))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error // another write took the last of it
      }
      return () => rmSync(ballast)
    },
  }
}
