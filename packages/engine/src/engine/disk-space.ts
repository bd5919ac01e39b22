/** Whether the journal's disk has space for more than the few events that its reserve is for. */
import { statfs } from 'node:fs/promises'
import { FREE_MIB } from '../turn/wait.ts'

const FREE_BYTES = FREE_MIB * 1024 * 1024 // with less, the disk would be full again at once
const FREE_SHARE = 1 / 4 // a small disk never has that much free

export async function hasDiskSpace(folder: string): Promise<boolean> {
  try {
    const { bavail, blocks, bsize } = await statfs(folder)
    return bavail * bsize >= Math.min(FREE_BYTES, blocks * bsize * FREE_SHARE)
  } catch {
    // A disk that cannot even be queried is not ready; the parked turn already says why it waits.
    return false
  }
}
