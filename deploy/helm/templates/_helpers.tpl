{{- define "purser.name" -}}
{{- if contains "purser" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-purser" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "purser.selector" -}}
app.kubernetes.io/name: purser
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "purser.labels" -}}
{{ include "purser.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "purser.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The Deployment, budget and autoscaler of one kind of nodes. It gets root, component, role and nodes. */}}
{{- define "purser.nodes" -}}
{{- $name := printf "%s-%s" (include "purser.name" .root) .component -}}
{{- with .root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ $.component }}
spec:
  {{- if not $.nodes.autoscaling.enabled }}
  replicas: {{ $.nodes.replicas }}
  {{- end }}
  # A start that migrates or builds indexes of large tables takes its time, and is not ready meanwhile.
  progressDeadlineSeconds: 3600
  selector:
    matchLabels:
      {{- include "purser.selector" . | nindent 6 }}
      app.kubernetes.io/component: {{ $.component }}
  strategy:
    type: RollingUpdate
    rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
  template:
    metadata:
      labels:
        {{- include "purser.labels" . | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
      annotations:
        # Another configuration is another pod.
        checksum/config: {{ .Values.config | toYaml | sha256sum }}
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      # Otherwise Kubernetes sets PURSER_SERVICE_HOST and others, which are no settings.
      enableServiceLinks: false
      automountServiceAccountToken: false
      # Longer than PURSER_LAME_DUCK_SECONDS, PURSER_DRAIN_SECONDS and the 15 s after it.
      terminationGracePeriodSeconds: {{ add .Values.lameDuckSeconds .Values.drainSeconds 25 }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile: { type: RuntimeDefault }
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "purser.selector" . | nindent 14 }}
              app.kubernetes.io/component: {{ $.component }}
      containers:
        - name: purser
          image: {{ include "purser.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          ports:
            - { name: http, containerPort: 3000 }
            {{- if .Values.metrics.enabled }}
            - { name: metrics, containerPort: 9464 }
            {{- end }}
          env:
            - { name: HOST, value: "0.0.0.0" }
            - { name: PURSER_ROLE, value: {{ $.role }} }
            - { name: PURSER_PUBLIC_URL, value: {{ required "publicUrl: the address that people open" .Values.publicUrl | quote }} }
            - { name: PURSER_TRUSTED_PROXIES, value: {{ .Values.trustedProxies | quote }} }
            # The endpoints are updated before the process stops to listen.
            - { name: PURSER_LAME_DUCK_SECONDS, value: {{ .Values.lameDuckSeconds | quote }} }
            - { name: PURSER_DRAIN_SECONDS, value: {{ .Values.drainSeconds | quote }} }
            {{- if .Values.metrics.enabled }}
            - { name: PURSER_METRICS_ADDRESS, value: "0.0.0.0:9464" }
            {{- end }}
            {{- if .Values.config }}
            - { name: PURSER_CONFIG, value: /etc/purser/purser.yaml }
            {{- end }}
            - name: DATABASE_URL
              valueFrom: { secretKeyRef: { name: {{ .Values.database.secret }}, key: {{ .Values.database.key }} } }
            {{- range $setting, $value := .Values.settings }}
            - { name: {{ $setting }}, value: {{ $value | quote }} }
            {{- end }}
            {{- with .Values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          envFrom:
            - secretRef: { name: {{ .Values.secret }} }
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: { drop: [ALL] }
          volumeMounts:
            - { name: tmp, mountPath: /tmp }
            {{- if .Values.config }}
            - { name: config, mountPath: /etc/purser, readOnly: true }
            {{- end }}
          # /livez answers during a migration too, so only a process that does not begin at all is restarted.
          startupProbe:
            httpGet: { path: /livez, port: http }
            periodSeconds: 2
            failureThreshold: 60
          readinessProbe:
            httpGet: { path: /readyz, port: http }
            periodSeconds: 5
            timeoutSeconds: 3
          livenessProbe:
            httpGet: { path: /livez, port: http }
            periodSeconds: 10
            timeoutSeconds: 3
          resources:
            {{- toYaml $.nodes.resources | nindent 12 }}
      volumes:
        - { name: tmp, emptyDir: {} }
        {{- if .Values.config }}
        - { name: config, configMap: { name: {{ include "purser.name" . }} } }
        {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- if .Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ $.component }}
spec:
  maxUnavailable: {{ .Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "purser.selector" . | nindent 6 }}
      app.kubernetes.io/component: {{ $.component }}
{{- end }}
{{- if $.nodes.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $name }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ $.component }}
spec:
  scaleTargetRef: { apiVersion: apps/v1, kind: Deployment, name: {{ $name }} }
  minReplicas: {{ $.nodes.autoscaling.minReplicas }}
  maxReplicas: {{ $.nodes.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: { type: Utilization, averageUtilization: {{ $.nodes.autoscaling.targetCPUUtilizationPercentage }} }
{{- end }}
{{- end }}
{{- end -}}
