/**
 * `read`, `write` and `edit`, over the runner's files. `read` has no effect and `write` replaces a file in one step, so both may be
 * repeated. `edit` may not: after a crash it checks the file first.
 */
import { isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Box } from '@breakfall/wire'
import type { ToolCall } from '../turn/state.ts'
import { ensureBox, isBoxGone, replaceBox } from './box.ts'
import type { LiveSession } from './live-session.ts'
import { forModel } from './output.ts'
import { type GiveUp, isGiveUp } from './performed.ts'
import type { Ports } from './ports.ts'
import { callRunner } from './runner-call.ts'
import { READ_LIMITS, type ToolArguments } from './tools.ts'
import { checkpointTurn } from './turn-checkpoint.ts'
import { BOX_LOST, failedOutcome, type ToolOutcome, unknownOutcome } from './tool-outcome.ts'

export function runRead(
  ports: Ports,
  session: LiveSession,
  given: ToolArguments['read'],
): Promise<ToolOutcome | GiveUp> {
  return onFiles(ports, session, async (client, box) => {
    const { bytes } = await client.readFile(session.boxId, inWorkspace(given.path, box), { signal: session.signal })
    if (bytes.includes(0)) return failedOutcome(`${given.path} is not a text file (${bytes.length} bytes).`)
    const lines = ports.secrets.scrub(bytes.toString('utf8')).split('\n') // before anything is cut
    if (lines.at(-1) === '') lines.pop()
    const from = given.offset ?? 1
    const shown = lines.slice(from - 1, from - 1 + (given.limit ?? READ_LIMITS.lines))
    if (shown.length === 0 && lines.length > 0) {
      return failedOutcome(`${given.path} has ${lines.length} lines; there is nothing from line ${from} on.`)
    }
    const isPart = shown.length < lines.length
    const note = isPart ? `\n[lines ${from} to ${from + shown.length - 1} of ${lines.length}]` : ''
    return { outcome: 'ok', text: (forModel(shown.join('\n')) || '(the file is empty)') + note }
  })
}

export function runWrite(
  ports: Ports,
  session: LiveSession,
  call: ToolCall,
  given: ToolArguments['write'],
): Promise<ToolOutcome | GiveUp> {
  const bytes = Buffer.from(given.content)
  return onFiles(ports, session, async (client, box) => {
    await checkpointTurn(ports, session, client, box)
    ports.failpoint('before:write')
    session.unstartedCalls.delete(call.callId)
    await client.writeFile(session.boxId, inWorkspace(given.path, box), bytes, { signal: session.signal })
    ports.failpoint('after:write')
    return { outcome: 'ok', text: `wrote ${bytes.length} bytes to ${given.path}` }
  })
}

export function runEdit(
  ports: Ports,
  session: LiveSession,
  call: ToolCall,
  given: ToolArguments['edit'],
): Promise<ToolOutcome | GiveUp> {
  let mayHaveWritten = !session.unstartedCalls.has(call.callId)
  return onFiles(ports, session, async (client, box) => {
    const path = inWorkspace(given.path, box)
    for (let tries = 0; tries < EDIT_TRIES_MAX; tries += 1) {
      const { bytes, etag } = await client.readFile(session.boxId, path, { signal: session.signal })
      const content = bytes.toString('utf8')
      const verdict = judgeEdit(content, given, mayHaveWritten)
      if (verdict.do === 'answer') return verdict.outcome
      const changed = content.replace(given.old, () => given.new)
      await checkpointTurn(ports, session, client, box)
      ports.failpoint('before:edit')
      mayHaveWritten = true
      session.unstartedCalls.delete(call.callId)
      try {
        await client.writeFile(session.boxId, path, Buffer.from(changed), { ifMatch: etag, signal: session.signal })
        ports.failpoint('after:edit')
        return { outcome: 'ok', text: `edited ${given.path}` }
      } catch (thrown) {
        // Another write came in between, so ours was not applied: check the file again.
        if (!isFault(thrown) || thrown.category !== 'precondition_failed') throw thrown
        mayHaveWritten = false
      }
    }
    return failedOutcome(`${given.path} kept changing while it was being edited; nothing was written.`)
  })
}

type EditVerdict = { readonly do: 'write' } | { readonly do: 'answer'; readonly outcome: ToolOutcome }

/** Whether to write, judged by the file's current content. Pure. */
export function judgeEdit(content: string, given: { old: string; new: string }, mayHaveWritten: boolean): EditVerdict {
  const olds = occurrences(content, given.old)
  if (mayHaveWritten) {
    const hasNew = content.includes(given.new)
    if (olds === 0 && hasNew)
      return answer({ outcome: 'ok', text: 'edited (the edit was already there after an interruption)' })
    // If the new text contains the old text, the file looks the same before and after.
    const cannotTell = hasNew && given.new.includes(given.old)
    if (olds === 1 && !cannotTell) return { do: 'write' }
    return answer(unknownOutcome('it was interrupted, and the file does not show whether the edit was made'))
  }
  if (olds === 1) return { do: 'write' }
  if (olds === 0) return answer(failedOutcome('the text to replace does not occur in the file; nothing was changed.'))
  return answer(
    failedOutcome(`the text to replace occurs ${olds} times; give more of its surroundings. Nothing was changed.`),
  )
}

// ---- details ----

const EDIT_TRIES_MAX = 5

const answer = (outcome: ToolOutcome): EditVerdict => ({ do: 'answer', outcome })

function occurrences(content: string, piece: string): number {
  return content.split(piece).length - 1
}

function onFiles(
  ports: Ports,
  session: LiveSession,
  work: (client: RunnerClient, box: Box) => Promise<ToolOutcome>,
): Promise<ToolOutcome | GiveUp> {
  return callRunner(ports, session, async (client, runnerId) => {
    const inBox = async (): Promise<ToolOutcome | GiveUp> => {
      const box = await ensureBox(ports, session, client, runnerId)
      return isGiveUp(box) ? box : work(client, box)
    }
    try {
      return await inBox()
    } catch (thrown) {
      if (!isBoxGone(thrown)) throw thrown
      const replaced = await replaceBox(ports, session, client)
      if (isGiveUp(replaced)) return replaced
      return replaced.filesKept ? inBox() : BOX_LOST
    }
  })
}

/** Models like absolute paths; the runner takes paths relative to the workspace and refuses those outside it. */
export function inWorkspace(path: string, box: Box): string {
  const root = box.workspace.path.replace(/\/+$/, '')
  if (path === root) return '.'
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path.replace(/^\.\//, '')
}
