/** A fleet on the stage with one session in every state, for pictures, axe and layout tests. */
import { Journal } from './journal.ts'
import { answerAt, systemAt } from './stage-answers.ts'
import { IDS } from './stage-ids.ts'
import { journalOf } from './stage-journals.ts'
import { StagedDaemon } from './staged-daemon.ts'

export { IDS }

type Json = Readonly<Record<string, unknown>>

export async function stageFleet(): Promise<StagedDaemon> {
  const staged = await StagedDaemon.start()
  staged.bootId = '01a1e6cd-0000-7000-8000-000000000000' // of the first in its list of daemons
  const now = Date.now()
  fill(staged, now)
  return staged
}

// ---- details ----

const iso = (ms: number): string => new Date(ms).toISOString()

function row(id: string, title: string, state: string, turn: Json | null, more: Json = {}): Json & { id: string } {
  return {
    id,
    title,
    state: state === 'parked' ? 'parked' : ['finished', 'failed', 'cancelled'].includes(state) ? 'idle' : 'busy',
    turnId: null,
    model: 'qwen3-coder',
    boxId: id,
    createdAt: iso(Date.now() - 3_600_000),
    updatedAt: iso(Date.now() - 60_000),
    lastSeq: 1,
    workspace: '/home/ada/src/app',
    policy: {},
    quarantined: null,
    turn:
      turn === null
        ? null
        : {
            id: `t-${id}`,
            state,
            prompt: title,
            attempts: 3,
            faultsSurvived: 0,
            unknownOutcomes: 0,
            startedAt: iso(Date.now() - 600_000),
            endedAt: null,
            fault: null,
            parked: null,
            retry: null,
            marks: '',
            steps: 1,
            ...turn,
          },
    ...more,
  }
}

const fault = (category: string, faultClass: string, title: string, error = title): Json => ({
  category,
  class: faultClass,
  title,
  error,
})

function fill(staged: StagedDaemon, now: number): void {
  const put = (key: keyof typeof IDS, title: string, state: string, turn: Json | null, more: Json = {}): void =>
    staged.put(row(IDS[key], title, state, turn, more), journalOf(key, now))
  put('needs', 'Fix the date parser', 'parked', {
    steps: 2,
    marks: '--p',
    fault: fault(
      'model_auth_failed',
      'needs_action',
      'The provider rejected the API key',
      'The provider at api.example.com rejected the API key. Set another key in OPENAI_API_KEY; the turn continues on its own.',
    ),
    parked: { category: 'model_auth_failed', since: iso(now - 720_000), resumeAt: null },
  })
  put('approval', 'Tidy up the issue tracker', 'parked', {
    steps: 1,
    marks: '-',
    fault: fault('approval_needed', 'needs_action', 'A tool call waits for approval'),
    parked: { category: 'approval_needed', since: iso(now - 90_000), resumeAt: null, because: 'approval_needed' },
  })
  put('unknown', 'Deploy the preview', 'running', {
    steps: 2,
    marks: '-?-',
    unknownOutcomes: 1,
  })
  put('quarantined', 'Import the old tickets', 'running', null, {
    quarantined: {
      ...new Journal('', now).fault('journal_corrupt', 'checksum mismatch'),
      error: 'The journal of this session is damaged at event 212. Nothing was written since.',
    },
  })
  put('abandoned', 'Upgrade the linter', 'running', { steps: 1, marks: '-' }, { live: false })
  put('parked', 'Nightly refactoring of the billing module', 'parked', {
    steps: 2,
    marks: '--xp',
    fault: fault('model_unreachable', 'transient', 'The model server is not reachable'),
    parked: { category: 'model_unreachable', since: iso(now - 5_400_000), resumeAt: iso(now + 41_000) },
  })
  put('retrying', 'Make the flaky test pass', 'retrying', {
    steps: 10,
    marks: '--------xxx-k-xxx',
    faultsSurvived: 4,
    retry: { attempt: 3, max: 6, nextAt: iso(now + 27_000), category: 'model_overloaded' },
  })
  put('queued', 'Then update the changelog', 'queued', { steps: 0, startedAt: null })
  put('running', 'Write the release notes for 0.2', 'running', {
    steps: 34,
    marks: '-----x--------x--------x--------x-----',
    faultsSurvived: 4,
  })
  put(
    'finished',
    'A check in this folder fails. Find the cause, fix the code, and show that all checks pass.',
    'finished',
    { steps: 6, marks: '--x--x--', faultsSurvived: 2, endedAt: iso(now - 130_000) },
  )
  put('failed', 'Port the build to ESM', 'failed', {
    steps: 1,
    marks: '-xx',
    endedAt: iso(now - 3_700_000),
    fault: fault('model_bad_request', 'invalid', 'The model provider rejected the request'),
  })
  put('cancelled', 'Try another formatter', 'cancelled', {
    steps: 1,
    marks: '-',
    endedAt: iso(now - 7_300_000),
    fault: fault('cancelled', 'cancelled', 'Cancelled'),
  })
  staged.counts = {
    needs: 5,
    parked: 3,
    retrying: 1,
    running: 2,
    queued: 1,
    finished: 1_204,
    failed: 1,
    cancelled: 3,
    unknown: 1,
    idle: 0,
  }
  staged.system = systemAt(now)
  staged.handle = ({ url, method }) => answerAt(now, method, url.pathname)
}
