/** Whether the journal's disk has space for more than the few events that its reserve is for. */
import { statfs } from 'node:fs/promises'

const FREE_BYTES_MIN = 8 * 1024 * 1024 // with less, the disk would be full again at once

export async function hasDiskSpace(folder: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize >= FREE_BYTES_MIN
  } catch {
    // A disk that cannot even be queried is not ready; the parked turn already says why it waits.
    return false
  }
}
