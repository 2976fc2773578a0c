{{- define "tidelog.name" -}}
{{- if contains "tidelog" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-tidelog" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tidelog.selector" -}}
app.kubernetes.io/name: tidelog
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidelog.labels" -}}
{{ include "tidelog.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "tidelog.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
