/** Everything known about what is selected: the sentence, the raw error, the times, and ways to copy them. */
import type { Session } from '@breakfall/wire'
import type { ComponentChildren, VNode } from 'preact'
import type { Attempt, Call, Step, TurnView, WireFault } from '../fold/view.ts'
import { system } from '../link/fleet.ts'
import { sessionLink } from '../ui/route.ts'
import { plainOutput } from '../text/ansi.ts'
import { bytes, length } from '../text/format.ts'
import { reveal } from '../text/reveal.ts'
import { ACTIONS, callLine, givenTo, happened, RESUMED_BY, WORDS, faultTitle } from './words.ts'
import { CopyButton } from '../ui/boundary.tsx'
import { Category } from '../ui/labels.tsx'
import { Exact } from '../ui/times.tsx'
import type { Pick } from './selection.ts'

type InspectorProps = {
  readonly turn: TurnView
  readonly session: Session | undefined
  readonly pick: Pick
  readonly onClose: () => void
}

export function Inspector({ turn, session, pick, onClose }: InspectorProps): VNode {
  const step = turn.steps.find(({ n }) => n === pick.step)
  return (
    <div class="inspector" role="region" aria-label="Inspector" id="inspector" tabIndex={-1}>
      <div class="row">
        <h2>{headingOf(pick, step)}</h2>
        <span class="spacer" />
        <CopyButton
          label="copy link"
          text={() => `${location.origin}/${sessionLink(session?.id ?? '', turn.id, pick)}`}
        />
        <button type="button" class="quiet" onClick={onClose} aria-label="Close the inspector">
          ✕
        </button>
      </div>
      {step === undefined ? (
        <p class="muted">This step is not loaded.</p>
      ) : (
        <Details turn={turn} step={step} pick={pick} session={session} />
      )}
    </div>
  )
}

// ---- details, in the order they are used above ----

function headingOf({ step, attempt, call, seq }: Pick, found: Step | undefined): string {
  if (call !== undefined) return `${found?.calls.find(({ id }) => id === call)?.tool ?? 'call'} in step ${step}`
  if (attempt !== undefined) return `Attempt ${attempt} of step ${step}`
  if (seq !== undefined)
    return found?.parks.some((park) => park.seq === seq) ? `Parked at step ${step}` : `Restart at step ${step}`
  return `Step ${step}`
}

type DetailsProps = {
  readonly turn: TurnView
  readonly step: Step
  readonly pick: Pick
  readonly session: Session | undefined
}

function Details({ turn, step, pick, session }: DetailsProps): VNode {
  const call = step.calls.find(({ id }) => id === pick.call)
  if (call !== undefined) return <CallDetails call={call} sessionId={session?.id ?? ''} />
  const park = step.parks.find(({ seq }) => seq === pick.seq)
  if (park !== undefined)
    return (
      <>
        <FaultDetails fault={park.fault} turn={turn} session={session} />
        <List
          rows={[
            ['parked', <Exact at={park.at} />],
            [
              'until',
              park.resumeAt === null ? (
                'something changes, or a person resumes it'
              ) : (
                <Exact at={Date.parse(park.resumeAt)} />
              ),
            ],
            ['continued', park.endedBy === null ? 'not yet' : (RESUMED_BY[park.endedBy] ?? park.endedBy)],
          ]}
        />
      </>
    )
  const gap = step.takeovers.find(({ seq }) => seq === pick.seq)
  if (gap !== undefined)
    return (
      <>
        <p>{WORDS.gone(gap)}. Everything before is in the journal; the turn continued from its last safe point.</p>
        <List
          rows={[
            ['last event', <Exact at={gap.from} />],
            ['continued', <Exact at={gap.to} />],
            ['epoch', gap.epoch],
          ]}
        />
      </>
    )
  const attempt = step.attempts.find(({ n }) => n === pick.attempt) ?? step.attempts.at(-1)
  return attempt === undefined ? (
    <p class="muted">Nothing was asked yet.</p>
  ) : (
    <AttemptDetails attempt={attempt} turn={turn} session={session} />
  )
}

function AttemptDetails({
  attempt,
  turn,
  session,
}: {
  readonly attempt: Attempt
  readonly turn: TurnView
  readonly session: Session | undefined
}): VNode {
  const [first] = attempt.spans
  const last = attempt.spans.at(-1)
  const ms = attempt.spans.reduce((sum, { from, to }) => sum + (to ?? from) - from, 0)
  const { wait, fault } = attempt
  const thrown = attempt.parts.reduce((sum, part) => sum + (part.discarded === null ? 0 : part.text.length), 0)
  return (
    <>
      <p>{WORDS.attempt(attempt, ms)}.</p>
      {fault === null ? null : <FaultDetails fault={fault} turn={turn} session={session} />}
      <List
        rows={[
          ['model', attempt.model ?? turn.model ?? ''],
          ['started', first === undefined ? '' : <Exact at={first.from} />],
          ['ended', last?.to == null ? 'not yet' : <Exact at={last.to} />],
          ['last heard', attempt.heardAt === null ? 'nothing' : <Exact at={attempt.heardAt} />],
          ['thrown away', thrown === 0 ? '' : bytes(thrown)],
          [
            'then',
            wait === null
              ? ''
              : `${ACTIONS[wait.action] ?? wait.action} after ${length(wait.delayMs)}${wait.to === null ? '' : `: ${wait.to}`} (${wait.attempt} of ${wait.max}${wait.isFree ? ', cost nothing' : ''})`,
          ],
          ['next attempt', wait === null ? '' : <Exact at={wait.until} />],
        ]}
      />
    </>
  )
}

function FaultDetails({
  fault,
  turn,
  session,
}: {
  readonly fault: WireFault
  readonly turn: TurnView
  readonly session: Session | undefined
}): VNode {
  return (
    <>
      <p>
        {happened(fault)} {fault.message?.action ?? ''}
      </p>
      {fault.message?.advice === undefined ? null : <p class="muted">{fault.message.advice}</p>}
      <pre class="raw" tabIndex={0} role="group" aria-label="The original error">
        {reveal(fault.errorRaw)}
      </pre>
      {fault.diagnostics.map((one, index) => (
        <p key={index}>
          <span class="chip">{one.rank}</span> {one.message} <span class="muted">{one.advice}</span>
        </p>
      ))}
      <List
        rows={[
          ['category', <Category name={fault.category} />],
          ['class', fault.class],
          ['where', [fault.boundary, fault.phase].filter(Boolean).join(', ')],
          ['status', fault.status ?? ''],
          ['asked to wait', fault.retryAfterMs === undefined ? '' : length(fault.retryAfterMs)],
          ['side effects', fault.sideEffects],
          ['request', fault.requestId ?? ''],
          ['model server', fault.serve === undefined ? '' : `boot ${fault.serve.boot}, ${fault.serve.state}`],
        ]}
      />
      <div class="row">
        <CopyButton label="copy raw error" text={() => fault.errorRaw} />
        <CopyButton label="copy JSON" text={() => JSON.stringify(fault, null, 2)} />
        <CopyButton label="copy for an agent" text={() => forAnAgent(fault, turn)} />
        <CopyButton label="copy curl" text={() => curlFor(turn.id, session?.id ?? '')} />
      </div>
    </>
  )
}

/** Reads the token from its file: a copied line never holds a secret. */
export function curlFor(turnId: string, _sessionId: string, action: 'resume' | 'cancel' = 'resume'): string {
  const file = system.peek()?.tokenFile || '$XDG_STATE_HOME/breakfall/daemon.token'
  const quoted = file.startsWith('$') ? `"${file}"` : `'${file.replaceAll("'", "'\\''")}'`
  return `curl -sS -X POST -H "Authorization: Bearer $(head -n1 ${quoted} | cut -d' ' -f1)" -H 'Content-Type: application/json' -d '{}' ${location.origin}/v1/turns/${turnId}/${action}`
}

function CallDetails({ call, sessionId }: { readonly call: Call; readonly sessionId: string }): VNode {
  const [first] = call.spans
  const last = call.spans.at(-1)
  const ms = call.spans.reduce((sum, { from, to }) => sum + (to ?? from) - from, 0)
  return (
    <>
      <p>{WORDS.call(call, ms)}.</p>
      <pre class="raw" tabIndex={0} role="group" aria-label="Arguments">
        {givenTo(call)}
      </pre>
      <List
        rows={[
          ['started', first === undefined ? '' : <Exact at={first.from} />],
          ['ended', last?.to == null ? 'not yet' : <Exact at={last.to} />],
          ['cause', call.exit?.cause ?? ''],
          ['exit code', call.exit?.code ?? ''],
          ['signal', call.exit?.signal ?? ''],
          [
            'output',
            call.exit == null
              ? bytes(call.outputBytes)
              : `${bytes(call.exit.stdoutBytes)} stdout, ${bytes(call.exit.stderrBytes)} stderr`,
          ],
          ['exec', <code>{call.execId ?? ''}</code>],
          [
            'looked for the runner',
            call.lookups.length === 0 ? '' : `${call.lookups.length} of ${call.lookups.at(-1)?.max ?? 0}`,
          ],
        ]}
      />
      <div class="row">
        <CopyButton label="copy command" text={() => callLine(call)} />
        <CopyButton label="copy output" text={() => plainOutput(call.output || call.result)} />
        <CopyButton label="copy JSON" text={() => JSON.stringify({ ...call, sessionId }, null, 2)} />
      </div>
    </>
  )
}

function List({ rows }: { readonly rows: readonly (readonly [string, ComponentChildren])[] }): VNode {
  return (
    <dl class="facts-list">
      {rows
        .filter(([, value]) => value !== '' && value !== null)
        .map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd class="isolate">{value}</dd>
          </>
        ))}
    </dl>
  )
}

/** A fault as Markdown for another agent or a colleague: the sentence, the raw error, what was tried. */
function forAnAgent(fault: WireFault, turn: TurnView): string {
  const tried = turn.steps.flatMap((step) =>
    step.attempts.flatMap(({ n, fault: failed, wait }) =>
      failed === null
        ? []
        : [
            `- step ${step.n}, attempt ${n}: ${failed.category}; ${wait === null ? 'gave up' : `${ACTIONS[wait.action] ?? wait.action} after ${length(wait.delayMs)}`}`,
          ],
    ),
  )
  // Longer than any fence inside: a raw error never leaves its block.
  const fence = '`'.repeat(Math.max(2, ...[...fault.errorRaw.matchAll(/`+/g)].map(([run]) => run.length)) + 1)
  return [
    `# ${faultTitle(fault)} (\`${fault.category}\`)`,
    '',
    happened(fault),
    fault.message?.advice ?? '',
    '',
    fence,
    fault.errorRaw,
    fence,
    '',
    ...fault.diagnostics.map(({ rank, message, advice }) => `- ${rank}: ${message} ${advice}`),
    '',
    '## What Breakfall tried',
    ...(tried.length === 0 ? ['- nothing yet'] : tried.slice(-20)),
    '',
    `Turn \`${turn.id}\`, model \`${turn.model ?? 'unknown'}\`.`,
  ]
    .filter((line, index, all) => line !== '' || all[index - 1] !== '')
    .join('\n')
}
