/** A call that waits for a person: what it would do, why it asks, and the three answers. */
import type { VNode } from 'preact'
import type { Call } from '../fold/view.ts'
import { approve } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { Action, outcomes } from '../ui/action.tsx'
import { givenTo } from './words.ts'
import { Countdown } from '../ui/times.tsx'

/** `approval` is a new value after each change: a component that reads signals does not look into a call that changed. */
type ApprovalProps = {
  readonly approval: NonNullable<Call['approval']>
  readonly call: Pick<Call, 'id' | 'tool' | 'arguments' | 'approval'>
  readonly turnId: string
  readonly isReadOnly: boolean
}

const ANSWERS = [
  { decision: 'allow', label: 'Allow', pending: 'Allowing…' },
  { decision: 'allow_session', label: 'Allow in this session', pending: 'Allowing…' },
  { decision: 'deny', label: 'Deny', pending: 'Denying…' },
] as const

const DECIDED: Readonly<Record<string, string>> = {
  allow: 'A person allowed this call.',
  allow_session: 'A person allowed this tool for the session.',
  deny: 'A person denied this call.',
}

const DENY = { question: 'Deny this call?', field: 'Why? The model reads it', yes: 'Deny it', no: 'Not yet' } as const

export function Approval({ approval, call, turnId, isReadOnly }: ApprovalProps): VNode {
  if (approval.decision !== null)
    return (
      <p class="more">
        {DECIDED[approval.decision] ?? approval.decision}
        {approval.reason === '' ? null : <span class="isolate"> Reason: {approval.reason}</span>}
      </p>
    )
  return (
    <div class="more approval" role="group" aria-label="This call waits for your approval">
      <p>
        <strong>Waits for you:</strong> <span>{approval.why.replace(/\.$/, '')}.</span>{' '}
        {approval.expiresAt === null ? null : (
          <span class="muted">
            Expires in <Countdown until={Date.parse(approval.expiresAt)} />.
          </span>
        )}
      </p>
      <pre class="raw" tabIndex={0} role="group" aria-label={`What ${call.tool} is given`}>
        {givenTo(call)}
      </pre>
      {isReadOnly ? null : (
        <div class="row">
          <ApprovalAnswers call={call} turnId={turnId} place="call" />
        </div>
      )}
      <p role="status">{outcomes.value[`approve:${call.id}`]}</p>
    </div>
  )
}

type AnswersProps = {
  readonly call: Pick<Call, 'id' | 'approval'>
  readonly turnId: string
  readonly place: 'bar' | 'call'
  /** The place does not show all of the call, so it can only be denied there. */
  readonly isCut?: boolean
}

/** The result of a press is shown next to the call. */
export function ApprovalAnswers({ call, turnId, place, isCut = false }: AnswersProps): VNode {
  const read = (): void => document.getElementById(`call-${call.id}`)?.scrollIntoView({ block: 'center' })
  return (
    <>
      {isCut ? (
        <button type="button" onClick={read}>
          Read all of it
        </button>
      ) : null}
      {ANSWERS.filter(({ decision }) => !isCut || decision === 'deny').map(({ decision, label, pending }) => (
        <Action
          key={decision}
          id={`approve-${place}-${decision}:${call.id}`}
          subject={`approve:${call.id}`}
          label={label}
          pendingLabel={pending}
          kind={decision === 'deny' ? 'danger' : decision === 'allow' ? 'primary' : undefined}
          confirm={decision === 'deny' ? DENY : undefined}
          run={async (reason) => {
            const question = call.approval?.question?.id
            await approve(daemon, turnId, { callId: call.id, decision, question, reason: reason || undefined })
            return undefined
          }}
        />
      ))}
    </>
  )
}
