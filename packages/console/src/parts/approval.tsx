/** A call that waits for a person: what it would do, why it asks, and the three answers. */
import type { VNode } from 'preact'
import type { Call } from '../fold/view.ts'
import { approve } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { Action, outcomes } from './action.tsx'
import { Countdown } from './basics.tsx'

/** `approval` is a new value after each change: a component that reads signals does not look into a call that changed. */
type ApprovalProps = {
  readonly approval: NonNullable<Call['approval']>
  readonly callId: string
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

export function Approval({ approval, callId, turnId, isReadOnly }: ApprovalProps): VNode {
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
      {isReadOnly ? null : (
        <div class="row">
          <ApprovalAnswers callId={callId} turnId={turnId} place="call" />
        </div>
      )}
      <p role="status">{outcomes.value[`approve:${callId}`]}</p>
    </div>
  )
}

type AnswersProps = { readonly callId: string; readonly turnId: string; readonly place: 'bar' | 'call' }

/** The result of a press is shown next to the call. */
export function ApprovalAnswers({ callId, turnId, place }: AnswersProps): VNode {
  return (
    <>
      {ANSWERS.map(({ decision, label, pending }) => (
        <Action
          key={decision}
          id={`approve-${place}-${decision}:${callId}`}
          subject={`approve:${callId}`}
          label={label}
          pendingLabel={pending}
          kind={decision === 'deny' ? 'danger' : decision === 'allow' ? 'primary' : undefined}
          confirm={decision === 'deny' ? DENY : undefined}
          run={async (reason) => {
            await approve(daemon, turnId, { callId, decision, ...(reason === '' ? {} : { reason }) })
            return undefined
          }}
        />
      ))}
    </>
  )
}
