/**
 * A small real coding task, done the way an agent does it: list the folder, read the files, see a check fail, fix the code,
 * see the check pass. Each step depends on what the tools returned, not on how many ran: if the checks already pass it
 * changes nothing, and if the outcome of an edit is unknown it reads the file first.
 */
import type { Move, ToolCall, Turn } from './conversation.ts'
import { ALL_PASSED, CODE_FILE, FIXED_CODE, RIGHT, TEST_COMMAND, TEST_FILE, WRONG } from './project.ts'

export function fix(turn: Turn): Move {
  const seen = seenIn(turn)
  if (turn.calls.length > CALLS_MAX) return giveUp('I have tried often enough')
  if (!seen.hasListed) return listFiles
  if (seen.listing !== null && !seen.listing.includes(TEST_FILE)) return noProject
  if (seen.test === null || seen.code === null)
    return seen.reads >= READS_MAX ? giveUp('I cannot read the files') : readBoth
  if (seen.checks === 'not run')
    return runChecks(seen.hasChanged ? 'Let me run the checks again.' : 'Now let me run the checks.')
  if (seen.checks === 'unclear') return runChecks('That says nothing about the checks, so I will run them again.')
  if (seen.checks === 'passed') return seen.hasChanged ? summary : nothingToDo
  return changeCode(seen)
}

// ---- the moves ----

const CALLS_MAX = 24
const READS_MAX = 4

const bash = (command: string): Omit<ToolCall, 'id'> => ({ name: 'bash', arguments: { command } })
const read = (path: string): Omit<ToolCall, 'id'> => ({ name: 'read', arguments: { path } })

const listFiles: Move = {
  reasoning: 'I know nothing about this folder yet, so I start by listing its files.',
  text: 'Let me look around first.',
  calls: [bash('ls -l')],
}

const readBoth: Move = {
  text: `${TEST_FILE} checks the code in ${CODE_FILE}. Let me read both.`,
  calls: [read(TEST_FILE), read(CODE_FILE)],
}

const runChecks = (text: string): Move => ({ text, calls: [bash(TEST_COMMAND)] })

function changeCode(seen: Seen): Move {
  const code = seen.code ?? ''
  if (seen.failedReads >= READS_MAX) return giveUp(`I can no longer read ${CODE_FILE}`)
  if (seen.isCodeStale) return { text: `Let me read ${CODE_FILE} again before I continue.`, calls: [read(CODE_FILE)] }
  if (code.includes(RIGHT)) return giveUp('the code looks right to me, but the checks still fail')
  if (!code.includes(WRONG) || seen.edits >= 2) {
    return {
      text: `I will rewrite ${CODE_FILE}.`,
      calls: [{ name: 'write', arguments: { path: CODE_FILE, content: FIXED_CODE } }],
    }
  }
  return {
    reasoning:
      'Every blank becomes a dash, so two blanks become two dashes. ' +
      '`tr -s` squeezes a run of the same character into one, which is what the comment in the code promises.',
    text: 'Two blanks in a row become two dashes. `tr -s` squeezes them into one, so I will change that line.',
    calls: [{ name: 'edit', arguments: { path: CODE_FILE, old: WRONG, new: RIGHT } }],
  }
}

const summary: Move = {
  text:
    `Fixed: ${ALL_PASSED}. ${CODE_FILE} turned every blank into a dash, so several blanks in a row became several ` +
    `dashes. I changed \`${WRONG}\` to \`${RIGHT}\`, which squeezes them into one.`,
}

const nothingToDo: Move = { text: `There is nothing to fix: ${ALL_PASSED}. I changed nothing.` }

const noProject: Move = {
  text:
    `I see no ${TEST_FILE} here. I am the rehearsal model: I know one small project and nothing else, and I changed ` +
    'nothing. To work on your own code, choose a real model.',
}

const giveUp = (why: string): Move => ({ text: `I give up: ${why}. The tool results above show what I tried.` })

// ---- what the tools have shown so far ----

type Seen = {
  hasListed: boolean
  listing: string | null
  test: string | null
  code: string | null
  reads: number
  /** Reads of the code since one last succeeded. */
  failedReads: number
  edits: number
  hasChanged: boolean
  /** The file may have changed since it was last read. */
  isCodeStale: boolean
  /** The last change did not report success, but may have worked. */
  isChangeUnsure: boolean
  checks: 'not run' | 'passed' | 'failed' | 'unclear'
}

function seenIn(turn: Turn): Seen {
  const seen: Seen = {
    hasListed: false,
    listing: null,
    test: null,
    code: null,
    reads: 0,
    failedReads: 0,
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
      seen.failedReads += path === CODE_FILE ? 1 : 0
      if (path === TEST_FILE && result.includes('check ')) seen.test = result
      if (path === CODE_FILE && result.includes('printf')) {
        seen.code = result
        seen.failedReads = 0
        seen.isCodeStale = false
        // The file proves that a change with an unknown outcome did work.
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
    if (seen.hasChanged) seen.isCodeStale = true // the change did not help: read the file before changing more
  } else seen.checks = 'unclear'
}

function noteListing(seen: Seen, result: string): void {
  // A listing that was cut off, or whose outcome is unknown, does not prove that the files are missing.
  seen.hasListed = true
  if (result !== '' && !looksFailed(result)) seen.listing = result
}

/** The tools say in plain language that something failed or that its outcome is unknown. */
const looksFailed = (result: string): boolean =>
  /\b(?:fail(?:ed|ure)?|error|unknown|nobody|no one|nothing was|was not|not found|no match|does not|did not|cannot|could not|denied|refused)\b/i.test(
    result,
  )
