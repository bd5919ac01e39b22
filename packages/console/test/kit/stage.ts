/** A fleet on the stage with one session in every state, for pictures, axe and layout tests. */
import { Journal } from './journal.ts'
import { answerAt, systemAt } from './stage-answers.ts'
import { IDS } from './stage-ids.ts'
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
    steps: 4,
    marks: '---x-p',
    faultsSurvived: 1,
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
    steps: 9,
    marks: '------x--?',
    unknownOutcomes: 1,
    faultsSurvived: 1,
  })
  put('quarantined', 'Import the old tickets', 'running', null, {
    quarantined: {
      ...new Journal('', now).fault('journal_corrupt', 'checksum mismatch'),
      error: 'The journal of this session is damaged at event 212. Nothing was written since.',
    },
  })
  put('abandoned', 'Upgrade the linter', 'running', { steps: 2, marks: '--' }, { live: false })
  put('parked', 'Nightly refactoring of the billing module', 'parked', {
    steps: 31,
    marks: '-------x---------x-----xx------p',
    faultsSurvived: 4,
    fault: fault('model_unreachable', 'transient', 'The model server is not reachable'),
    parked: { category: 'model_unreachable', since: iso(now - 5_400_000), resumeAt: iso(now + 41_000) },
  })
  put('retrying', 'Make the flaky test pass', 'retrying', {
    steps: 12,
    marks: '----x-----k-xxx',
    faultsSurvived: 4,
    retry: { attempt: 3, max: 6, nextAt: iso(now + 27_000), category: 'model_overloaded' },
  })
  put('queued', 'Then update the changelog', 'queued', { steps: 0, startedAt: null })
  put('running', 'Write the release notes for 0.2', 'running', {
    steps: 33,
    marks: '---x----x------x---k-----x--------',
    faultsSurvived: 7,
  })
  put(
    'finished',
    'A check in this folder fails. Find the cause, fix the code, and show that all checks pass.',
    'finished',
    { steps: 6, marks: '--x-x-p---', faultsSurvived: 3, endedAt: iso(now - 130_000) },
  )
  put('failed', 'Port the build to ESM', 'failed', {
    steps: 41,
    marks: '------xxxxxx',
    faultsSurvived: 5,
    endedAt: iso(now - 3_700_000),
    fault: fault('model_overloaded', 'transient', 'The model is overloaded'),
  })
  put('cancelled', 'Try another formatter', 'cancelled', {
    steps: 3,
    marks: '---',
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
    failed: 7,
    cancelled: 3,
    unknown: 1,
    idle: 0,
  }
  staged.system = systemAt(now)
  staged.handle = ({ url, method }) => answerAt(now, method, url.pathname)
}

function journalOf(key: keyof typeof IDS, now: number): Journal['events'] {
  switch (key) {
    case 'retrying':
      return retryingJournal(now)
    case 'needs':
      return new Journal(IDS.needs, now - 780_000)
        .turn('t1', 'Fix the date parser')
        .wait(80)
        .step()
        .say('I will read the parser first.')
        .call('read', { path: 'src/parse-date.ts' })
        .wait(40)
        .result('ok', 'export function parseDate(text: string) {\n  return new Date(text)\n}', null)
        .step()
        .say('Dates without a zone are read as local time.')
        .wait(300)
        .add('parked', {
          fault: {
            ...new Journal('', now).fault(
              'model_auth_failed',
              '401 {"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}',
            ),
            class: 'needs_action',
            message: {
              happened: 'The provider at api.example.com rejected the API key.',
              action: 'The turn is parked.',
              advice: 'Set another key in OPENAI_API_KEY; the turn continues on its own.',
            },
          },
          resumeAt: null,
        }).events
    case 'parked':
      return new Journal(IDS.parked, now - 5_500_000)
        .turn('t1', 'Nightly refactoring of the billing module')
        .wait(50)
        .step()
        .say('Let me look at the module.')
        .call('bash', { command: 'ls src/billing' })
        .output('invoice.ts\nledger.ts\n')
        .result('ok', '')
        .step()
        .wait(90)
        .retry('model_unreachable', 'connect ECONNREFUSED 127.0.0.1:8080', 2_000)
        .wait(2_100)
        .add('parked', {
          fault: new Journal('', now).fault('model_unreachable', 'connect ECONNREFUSED 127.0.0.1:8080'),
          resumeAt: iso(now + 41_000),
        }).events
    case 'approval':
      return new Journal(IDS.approval, now - 95_000)
        .turn('t1', 'Tidy up the issue tracker')
        .wait(60)
        .step()
        .say('Issue 7 was fixed last week, so I close it.')
        .call('mcp__tracker__close_issue', { issue: 7, comment: 'Fixed in 0.2.' })
        .add('approval-requested', {
          callId: 'c1',
          tool: 'mcp__tracker__close_issue',
          arguments: { issue: 7, comment: 'Fixed in 0.2.' },
          why: 'The server tracker is not trusted to declare its tools as read-only.',
          expiresAt: iso(now + 3_600_000),
        })
        .add('parked', {
          fault: new Journal('', now).fault('approval_needed', 'mcp__tracker__close_issue'),
          resumeAt: null,
          because: 'approval_needed',
        }).events
    case 'unknown':
      return new Journal(IDS.unknown, now - 60_000)
        .turn('t1', 'Deploy the preview')
        .wait(50)
        .step()
        .say('Everything is built. I deploy the preview now.')
        .call('bash', { command: 'npm run release' })
        .output('uploading 14 files\n')
        .wait(4_000)
        .result('unknown', 'the runner is gone and kept no record of the exec.', null)
        .step()
        .say('It is not known whether the release ran, so I look at the server before I repeat it.').events
    case 'finished':
      return finishedJournal(now)
    case 'running':
      return longJournal(now)
    case 'failed':
      return new Journal(IDS.failed, now - 4_000_000)
        .turn('t1', 'Port the build to ESM')
        .wait(20)
        .step()
        .say('I start with package.json.')
        .retry('model_overloaded', '503 no slot available', 900)
        .wait(950)
        .retry('model_overloaded', '503 no slot available', 1_900)
        .wait(2_000)
        .add('turn-error', {
          ...new Journal('', now).fault('model_overloaded', '503 no slot available'),
          message: { happened: 'The model is overloaded. 6 attempts failed.', advice: 'Send the prompt again later.' },
          stopped: 'attempts',
        }).events
    case 'cancelled':
      return new Journal(IDS.cancelled, now - 7_400_000)
        .turn('t1', 'Try another formatter')
        .step()
        .say('I look at the options.')
        .add('turn-error', {
          ...new Journal('', now).fault('cancelled', 'cancelled by the user'),
          actor: 'user',
          message: { happened: 'The turn was cancelled.' },
        }).events
    case 'abandoned':
    case 'quarantined':
    case 'queued':
      return new Journal(IDS[key], now - 60_000)
        .turn('t1', 'Upgrade the linter')
        .wait(20)
        .step()
        .say('I look at the configuration first.').events
  }
}

/** Every kind of scar: a cut, a stall, an overload, a killed daemon, a moved runner. */
function retryingJournal(now: number): Journal['events'] {
  const journal = new Journal(IDS.retrying, now - 205_000).turn('t1', 'Make the flaky test pass').wait(60)
  for (let n = 1; n <= 7; n += 1)
    journal
      .step()
      .say(`Line ${n} is checked.`, 700)
      .call('bash', { command: `sed -n ${n}p test/parser.test.ts` })
      .output(`assert.equal(parse('${n}'), ${n})\n`)
      .result('ok', '')
  journal
    .step()
    .say('The test fails because the clo', 800)
    .wait(8_200)
    .retry('model_stream_interrupted', 'TypeError: terminated\n  cause: read ECONNRESET', 400)
    .wait(420)
    .say('The test fails because the clock is read twice.', 900)
    .call('bash', { command: 'npm test' })
    .wait(120)
    .retry('runner_unreachable', 'connect ECONNREFUSED 127.0.0.1:41231', 300, {
      action: 'resolve',
      event: { callId: 'c8' },
    })
    .wait(330)
    .retry('runner_unreachable', 'connect ECONNREFUSED 127.0.0.1:41231', 700, {
      action: 'resolve',
      event: { callId: 'c8' },
    })
    .wait(740)
    .output('FAIL test/parser.test.ts\n  ✗ parses a date at midnight\n9 of 214 tests failed\n', 2_000)
    .result('failed', '', 1)
  journal
    .step()
    .say('I pass the clock in as an argument.', 600)
    .wait(200)
    .wait(4_100)
    .add('taken-over', { epoch: 2 })
    .say(' Then the test decides the time.', 500)
    .call('edit', {
      path: 'src/parser.ts',
      old: 'export function parse(text) {\n  const now = Date.now()\n  return read(text, now)\n}',
      new: 'export function parse(text, now = Date.now()) {\n  return read(text, now)\n}',
    })
    .wait(30)
    .result('ok', 'edited src/parser.ts', null)
  journal
    .step()
    .say('Now the tests again.', 300, 'reasoning-delta')
    .say('Let me run the tests', 300)
    .wait(118_000)
    .retry('model_stream_stalled', 'no byte for 118000 ms', 400)
    .wait(430)
    .wait(200)
  return journal
    .retry('model_overloaded', '503 {"error":"no slot available"}', 4_000)
    .wait(4_100)
    .wait(200)
    .retry('model_overloaded', '503 {"error":"no slot available"}', now + 27_000 - journal.now).events
}

function finishedJournal(now: number): Journal['events'] {
  const journal = new Journal(IDS.finished, now - 138_000)
    .turn('t1', 'A check in this folder fails. Find the cause, fix the code, and show that all checks pass.')
    .wait(30)
  journal
    .step()
    .say('I know nothing about this folder yet, so I start by listing its files.', 200, 'reasoning-delta')
    .say('Let me look around first.')
    .call('bash', { command: 'ls -l' })
    .output('README.md\nslug.sh\ntest.sh\n')
    .result('ok', '')
  journal
    .step()
    .say('test.sh checks the code in', 300)
    .retry('model_stream_interrupted', 'TypeError: terminated: read ECONNRESET', 120)
    .wait(140)
    .say('`test.sh` checks the code in `slug.sh`. Let me read both.')
    .call('read', { path: 'slug.sh' })
    .wait(20)
    .result('ok', "#!/bin/sh\nprintf '%s\\n' \"$*\" | tr ' ' '-'", null)
  journal
    .step()
    .say('Now let me run the checks.')
    .call('bash', { command: 'sh test.sh' })
    .output(
      "ok: 'Hello World' gives hello-world\n\u001b[31mFAILED\u001b[0m: 'Two  blanks' gives two--blanks, expected two-blanks\n",
    )
    .result('failed', '', 1)
  journal
    .step()
    .say('Every blank becomes a da', 300)
    .wait(3_200)
    .retry('model_stream_stalled', 'no byte for 3200 ms', 90)
    .wait(100)
    .say('Two blanks in a row become two dashes. `tr -s` squeezes them into one, so I will change that line.')
    .call('edit', { path: 'slug.sh', old: "tr ' ' '-'", new: "tr -s ' ' '-'" })
    .wait(20)
    .result('ok', 'edited slug.sh', null)
  journal
    .step()
    .say('Let me run the checks again.')
    .call('bash', { command: 'sh test.sh' })
    .output(
      "ok: 'Hello World' gives hello-world\nok: 'Two  blanks' gives two-blanks\n\u001b[32mall 4 checks passed\u001b[0m\n",
    )
    .result('ok', '')
  const text =
    'All **4 checks pass** now.\n\nThe cause: `tr` turned every blank into its own dash.\n\n1. I read `test.sh` and `slug.sh`.\n2. I changed one line: `tr -s` squeezes a run of blanks.\n\n```sh\nsh test.sh   # all 4 checks passed\n```\n'
  return journal.step().say(text, 900).end(text, 2).events
}

function longJournal(now: number): Journal['events'] {
  const journal = new Journal(IDS.running, now - 95_000).turn('t1', 'Write the release notes for 0.2').wait(40)
  for (let n = 1; n <= 33; n += 1) {
    journal.step()
    if (n % 8 === 5)
      journal
        .say('The change', 200)
        .wait(300)
        .retry('model_stream_interrupted', 'read ECONNRESET', 200 * n)
        .wait(200 * n)
    journal
      .say(`The change in commit ${n} is about the parser.`, 500)
      .call('bash', { command: `git show --stat HEAD~${n}` })
      .output(` src/parser.ts | ${n} +-\n`)
      .result('ok', '')
  }
  return journal.step().say('Now I write the notes:\n\n- parser: dates without a zone', 400).events
}
