/**
 * What a turn starts with besides its prompt: the system prompt, and which of the project's files are in it.
 *
 * I1  Read once, when the turn starts, and journalled with the start: whoever recovers the turn sends the same text, whatever
 *     has become of the files, the configuration or the daemon's version since.
 */
import type { AgentInput, EventDraftOf, InstructionsFile, TurnProvider } from '@breakfall/wire'
import { readProjectFiles } from '../project-files.ts'
import type { SessionFold } from '../turn/state.ts'
import { plannedBox, systemPrompt } from '../system-prompt.ts'
import type { OwnedSession, Writing } from '../session/owned-session.ts'
import type { MissingTools } from '../tools/mcp-servers.ts'
import type { Runners } from '../runner/runners.ts'
import type { ToolCatalog } from '../tools/catalog.ts'
import { BASH_LIMITS } from '../tools/arguments.ts'

export type TurnOpening = {
  readonly system: string
  readonly instructions: readonly InstructionsFile[]
  /** Servers whose tools are not there yet. */
  readonly missingTools: readonly MissingTools[]
}

/** What an opening is made from. */
export type OpeningParts = {
  readonly tools: ToolCatalog
  readonly runners: Pick<Runners, 'isHere'>
  /** What the configuration says to the model in every session. */
  readonly agent: () => AgentInput
}

/** Waits for servers of tools, but no longer than the grace. */
export async function turnOpening(parts: OpeningParts, session: OwnedSession): Promise<TurnOpening> {
  await parts.tools.settled(session.data)
  return openingOf(parts, session)
}

export function openingOf(parts: OpeningParts, session: OwnedSession): TurnOpening {
  const missingTools = parts.tools.missing(session.data)
  const { box, tools, agent = {}, about, undoneAt } = session.data
  const { workspace } = box
  const isElsewhere = workspace !== undefined && !parts.runners.isHere
  const { files, texts } = workspace === undefined || isElsewhere ? NO_FILES : readProjectFiles(workspace)
  const described = session.box.seen?.about ?? about ?? plannedBox(box)
  return {
    system: systemPrompt({
      agent: { ...parts.agent(), ...agent },
      box:
        tools.length === 0
          ? []
          : [
              ...described,
              ...(isElsewhere ? [READ_INSTRUCTIONS] : []),
              ...(tools.includes('bash') ? [TIME_LIMITS] : []),
              ...(undoneAt === undefined ? [] : [undone(undoneAt)]),
            ],
      project: texts,
      missing: missingTools,
    }),
    instructions: isElsewhere && tools.length > 0 ? UNSEEN_FILES : files,
    missingTools,
  }
}

/** The model and the provider that a turn uses to its end. */
export type ChosenModel = { readonly model: string; readonly provider: TurnProvider | null }

export type NewTurn = {
  readonly turnId: string
  readonly prompt: string
  /** The turn's first span. */
  readonly traceparent?: string | undefined
}

/** The start of a turn, with the session's record of the project's files and of its provider. */
export function startingTurn(
  fold: SessionFold,
  session: OwnedSession,
  { turnId, prompt, traceparent }: NewTurn,
  { system, instructions, missingTools, model, provider }: TurnOpening & ChosenModel,
): Writing {
  const draft: EventDraftOf<'turn-start'> = {
    type: 'turn-start',
    turnId,
    prompt,
    model,
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(provider === null ? {} : { provider }),
    ...(instructions.length === 0 ? {} : { instructions }),
    ...(missingTools.length === 0 ? {} : { missingTools }),
    ...(system === fold.system ? {} : { system }), // I1
  }
  const { data } = session
  const isSame = JSON.stringify(data.instructions ?? []) === JSON.stringify(instructions)
  const isRemembered = data.provider != null || provider === null
  return isSame && isRemembered
    ? { drafts: [draft] }
    : { drafts: [draft], data: { ...data, instructions, provider: data.provider ?? provider } }
}

// ---- details ----

const NO_FILES = { files: [], texts: [] }

/** The files are on the runner's machine, where there is no box before the first tool call: the model reads them itself. */
const UNSEEN_FILES = [
  {
    path: 'AGENTS.md',
    bytes: 0,
    sentBytes: 0,
    refused: 'is on the machine of the runner, if there is one; the model is told to read it there',
  },
]

const READ_INSTRUCTIONS =
  "If the workspace has an AGENTS.md (or else a CLAUDE.md), read it first: it holds the project's instructions."

const undone = (at: string): string =>
  `At ${at} the user brought files back to an earlier state. They may differ from what you saw before: read them again.`

const TIME_LIMITS = `Time limits: a bash command is ended after ${BASH_LIMITS.timeoutMs / 1000} s unless you set timeoutMs, at most ${BASH_LIMITS.timeoutMsMax}. Each command is a fresh sh.`
