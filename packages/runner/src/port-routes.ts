/** The calls for ports of a box on the host. */
import { boxPortCreateSchema, boxPortListSchema, boxPortSchema } from '@breakfall/wire'
import { BOX, headers, mutating, onBox } from './route-parts.ts'

export const PORT_ROUTES = {
  openPort: {
    method: 'post',
    path: `${BOX}/ports`,
    operationId: 'openPort',
    summary: "Open a port of the box on the loopback of the runner's machine; needs --allow-ports",
    headers,
    body: boxPortCreateSchema,
    answers: { 201: boxPortSchema },
    faults: [...mutating, 'box_stopped', 'box_invalid_state', 'quota_exceeded', 'isolation_unavailable'],
  },
  listPorts: {
    method: 'get',
    path: `${BOX}/ports`,
    operationId: 'listPorts',
    summary: 'The ports of a box that are open on the host',
    answers: { 200: boxPortListSchema },
    faults: onBox,
  },
  closePort: {
    method: 'delete',
    path: `${BOX}/ports/{port}`,
    operationId: 'closePort',
    summary: 'Close a port on the host; connections that are open stay',
    headers,
    answers: { 204: null },
    faults: mutating,
  },
} as const
