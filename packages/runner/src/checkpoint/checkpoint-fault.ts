/** What went wrong with a checkpoint, as a fault. Files are never changed before everything that can fail has succeeded. */
import { Fault, isFault } from '@breakfall/faults'
import { pathFault } from '../files/walk.ts'
import { GitError } from './git-command.ts'

export function checkpointFault(thrown: unknown, boxId: string, limitMs: number): Fault {
  if (isFault(thrown)) return thrown.with({ boxId })
  if (thrown instanceof DOMException && thrown.name === 'TimeoutError')
    return new Fault('deadline_exceeded', {
      boundary: 'box',
      boxId,
      error: `The checkpoint took longer than ${limitMs / 1000} s and was skipped. The next one continues from there.`,
      errorRaw: `no checkpoint within ${limitMs} ms`,
    })
  if (thrown instanceof GitError && /no space left|disk quota/i.test(thrown.message))
    return new Fault('journal_full', {
      boundary: 'box',
      boxId,
      cause: thrown,
      error: 'The disk is full. No file of the workspace was changed.',
    })
  const fault = pathFault(thrown, 'the workspace', 'write')
  return fault.category === 'journal_full' || fault.category === 'forbidden'
    ? fault.with({ boxId })
    : new Fault('other', {
        boundary: 'box',
        boxId,
        cause: thrown,
        error: 'The checkpoint could not be taken or read. No file of the workspace was changed.',
      })
}
