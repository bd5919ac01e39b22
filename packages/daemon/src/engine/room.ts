/** Whether the disk of the journal has room for more than the few events that its reserve is for. */
import { statfs } from 'node:fs/promises'

const ROOM_BYTES_MIN = 8 * 1024 * 1024 // less than that would be full again at once

export async function hasRoom(folder: string): Promise<boolean> {
  try {
    const { bavail, bsize } = await statfs(folder)
    return bavail * bsize >= ROOM_BYTES_MIN
  } catch {
    // A disk that cannot even be asked is not ready; whoever waits for it says why already.
    return false
  }
}
