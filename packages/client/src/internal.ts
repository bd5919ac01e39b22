/** For the console: the calls it makes and the place in the events, without the rest of the client. May change in any release. */
export { approve, cancel, prompt, resume } from './calls/turns.ts'
export { fields, isText } from './check.ts'
export { createSession, execOutput, exportSession, undo } from './calls/sessions.ts'
export { type Call, ClientCore, operation } from './core.ts'
export { type ApiRequest, jsonOrText } from './http.ts'
export { FOREVER } from './limits.ts'
export { EventPosition } from './position.ts'
export { faultInReport, isFault, type ReportedFault, reportedFault, sleep } from '@breakfall/faults/caller'
