/** Files of a workspace over HTTP. */
import { Fault } from '@breakfall/faults'
import type { Handler } from './handlers.ts'
import type { ApiContext } from './context.ts'

export function fileHandlers(
  _context: ApiContext,
): Record<'readFile' | 'writeFile' | 'deleteFile' | 'listFiles', Handler> {
  const no: Handler = () => {
    throw new Fault('not_found')
  }
  return { readFile: no, writeFile: no, deleteFile: no, listFiles: no }
}
