/**
 * A small real coding task, played as an agent would: look around, read, see the check fail, mend, see it pass.
 * It goes by what the tools said, not by how many there were: a check that passes already is left alone, a failed edit
 * is looked into, an outcome that nobody knows is looked up.
 */
import type { Move, ToolCall, Turn } from './conversation.ts'
import { ALL_PASSED, CODE_FILE, MENDED_CODE, RIGHT, TEST_COMMAND, TEST_FILE, WRONG } from './project.ts'

export function mend(turn: Turn): Move {
  const seen = seenIn(turn)
  if (turn.calls.length > CALLS_MAX) return giveUp('I have tried often enough')
  if (!seen.hasLooked) return look
  if (seen.listing !== null && !seen.listing.includes(TEST_FILE)) return noProject
  if (seen.test === null || seen.code === null)
    return seen.reads >= READS_MAX ? giveUp('the files cannot be read') : readBoth
  if (seen.checks === 'not run') return runChecks(seen.hasChanged ? 'I run the checks again.' : 'Now I run the checks.')
  if (seen.checks === 'unclear') return runChecks('That told me nothing about the checks, so I run them again.')
  if (seen.checks === 'passed') return seen.hasChanged ? summary : nothingToDo
  return repair(seen)
}

// ---- the moves ----

const CALLS_MAX = 24
const READS_MAX = 4

const bash = (command: string): Omit<ToolCall, 'id'> => ({ name: 'bash', arguments: { command } })
const read = (path: string): Omit<ToolCall, 'id'> => ({ name: 'read', arguments: { path } })

const look: Move = {
  reasoning: 'I know nothing about this folder yet. First I look at what is here.',
  text: 'I look around first.',
  calls: [bash('ls -l')],
}

const readBoth: Move = {
  text: `There is a check, ${TEST_FILE}, and the code that it checks, ${CODE_FILE}. I read both.`,
  calls: [read(TEST_FILE), read(CODE_FILE)],
}

const runChecks = (text: string): Move => ({ text, calls: [bash(TEST_COMMAND)] })

function repair(seen: Seen): Move {
  const code = seen.code ?? ''
  if (seen.readsInVain >= READS_MAX) return giveUp(`${CODE_FILE} cannot be read any more`)
  if (seen.isCodeStale) return { text: `I look at ${CODE_FILE} again before I go on.`, calls: [read(CODE_FILE)] }
  if (code.includes(RIGHT)) return giveUp('the code looks right to me and the checks still fail')
  if (!code.includes(WRONG) || seen.edits >= 2) {
    return {
      text: `I write ${CODE_FILE} anew.`,
      calls: [{ name: 'write', arguments: { path: CODE_FILE, content: MENDED_CODE } }],
    }
  }
  return {
    reasoning:
      'Each single blank becomes a dash, so two blanks become two dashes. ' +
      '`tr -s` squeezes a run of the translated character into one: that is what the comment in the code promises.',
    text: 'Two blanks in a row become two dashes. `tr -s` makes them one: I change that line.',
    calls: [{ name: 'edit', arguments: { path: CODE_FILE, old: WRONG, new: RIGHT } }],
  }
}

const summary: Move = {
  text:
    `The checks pass now (${ALL_PASSED}). The cause: ${CODE_FILE} turned every blank into a dash, so that several blanks ` +
    `in a row gave several dashes. I changed \`${WRONG}\` to \`${RIGHT}\`, which joins them into one.`,
}

const nothingToDo: Move = { text: `The checks pass already (${ALL_PASSED}), so I changed nothing.` }

const noProject: Move = {
  text:
    `I see no ${TEST_FILE} here. This is the rehearsal model: it knows one small project only, and it changed nothing. ` +
    'Name a real model to work on your own code.',
}

const giveUp = (why: string): Move => ({ text: `I stop here: ${why}. Nothing is hidden: see the tool results above.` })

// ---- what the tools have shown so far ----

type Seen = {
  hasLooked: boolean
  listing: string | null
  test: string | null
  code: string | null
  reads: number
  /** Since the last one that showed the code. */
  readsInVain: number
  edits: number
  hasChanged: boolean
  /** Something was done to the file, or tried, since it was last read, and the result did not say that it worked. */
  isCodeStale: boolean
  /** The last change did not report that it worked; it may have. */
  isChangeUnsure: boolean
  checks: 'not run' | 'passed' | 'failed' | 'unclear'
}

function seenIn(turn: Turn): Seen {
  const seen: Seen = {
    hasLooked: false,
    listing: null,
    test: null,
    code: null,
    reads: 0,
    readsInVain: 0,
    edits: 0,
    hasChanged: false,
    isCodeStale: false,
    isChangeUnsure: false,
    checks: 'not run',
  }
  for (const call of turn.calls) note(seen, call, call.result ?? '')
  return seen
}

function note(seen: Seen, call: ToolCall, result: string): void {
  const path = String(call.arguments['path'])
  switch (call.name) {
    case 'bash':
      if (call.arguments['command'] === TEST_COMMAND) noteChecks(seen, result)
      else noteListing(seen, result)
      return
    case 'read':
      seen.reads += 1
      seen.readsInVain += path === CODE_FILE ? 1 : 0
      if (path === TEST_FILE && result.includes('check ')) seen.test = result
      if (path === CODE_FILE && result.includes('printf')) {
        seen.code = result
        seen.readsInVain = 0
        seen.isCodeStale = false
        // The file shows it: a change whose outcome was not known has been made after all.
        if (result.includes(RIGHT) && seen.isChangeUnsure) seen.checks = 'not run'
        seen.isChangeUnsure = false
      }
      return
    case 'edit':
    case 'write':
      seen.edits += 1
      seen.hasChanged = true
      seen.isChangeUnsure = looksFailed(result)
      if (seen.isChangeUnsure) seen.isCodeStale = true
      else seen.checks = 'not run'
      return
    default:
      return
  }
}

function noteChecks(seen: Seen, result: string): void {
  if (result.includes(ALL_PASSED)) seen.checks = 'passed'
  else if (/FAILED|checks failed/.test(result)) {
    seen.checks = 'failed'
    if (seen.hasChanged) seen.isCodeStale = true // A change that did not help: look before changing more.
  } else seen.checks = 'unclear'
}

function noteListing(seen: Seen, result: string): void {
  // A listing that was cut off or whose outcome is not known says nothing against the files being there.
  seen.hasLooked = true
  if (result !== '' && !looksFailed(result)) seen.listing = result
}

/** Goes by the words of the tools: they say in plain language that something failed or that nobody knows. */
const looksFailed = (result: string): boolean =>
  /\b(?:fail(?:ed|ure)?|error|unknown|nobody|nothing was|was not|not found|no match|does not|did not|cannot|could not|denied|refused)\b/i.test(
    result,
  )
